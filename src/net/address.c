#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

enum { HOST_MAX = ADDRESS_MAX, PORT_MAX = 65535 };

static gw_status malformed(const char *text, gw_error *error) {
    return error_set(error, GW_INVALID,
                     "\"%.200s\" is no address: it must be host:port, as in 127.0.0.1:29500 or "
                     "[::1]:29500",
                     text);
}

// Takes the port from the end of |text|; returns its position or NULL.
static const char *parse_port(const char *text, int *out_port) {
    const char *colon = strrchr(text, ':');
    if (!colon || !colon[1] || strlen(colon + 1) > 5) return NULL;
    int port = 0;
    for (const char *c = colon + 1; *c; c++) {
        if (*c < '0' || *c > '9') return NULL;
        port = port * 10 + (*c - '0');
    }
    if (port > PORT_MAX) return NULL;
    *out_port = port;
    return colon;
}

static bool is_host(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        bool is_letter = (text[i] | 32) >= 'a' && (text[i] | 32) <= 'z';
        bool is_digit = text[i] >= '0' && text[i] <= '9';
        if (!is_letter && !is_digit && !memchr(".:-_%", text[i], 5)) return false;
    }
    return true;
}

// "[::1]" and "::1" without brackets differ from a name by their colons; only the first is
// unambiguous before a port.
static bool split(const char *text, char host[HOST_MAX], int *out_port) {
    const char *end = parse_port(text, out_port);
    if (!end) return false;
    const char *start = text;
    if (*start == '[') {
        if (end == start || end[-1] != ']') return false;
        start++;
        end--;
    } else if (memchr(start, ':', (size_t)(end - start))) {
        return false;
    }
    size_t size = (size_t)(end - start);
    if (size == 0 || size >= HOST_MAX || !is_host(start, size)) return false;
    memcpy(host, start, size);
    host[size] = '\0';
    return true;
}

static bool is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)a;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)a;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static void set_port(address *a, int port) {
    if (a->bytes.ss_family == AF_INET) {
        ((struct sockaddr_in *)&a->bytes)->sin_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in6 *)&a->bytes)->sin6_port = htons((uint16_t)port);
    }
}

// The first loopback address of |host|, or else its first of any kind.
static gw_status look_up(const char *text, const char *host, address *out, gw_error *error) {
    // A machine may list ::1 first for this name, and have its servers listen on 127.0.0.1.
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed == EAI_MEMORY) return error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
    if (failed) return error_set(error, GW_NOT_FOUND, "%s: %s", text, gai_strerror(failed));
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *i = found; i; i = i->ai_next) {
        if (!is_loopback(i->ai_addr)) continue;
        chosen = i;
        break;
    }
    memcpy(&out->bytes, chosen->ai_addr, chosen->ai_addrlen);
    out->size = chosen->ai_addrlen;
    freeaddrinfo(found);
    return GW_OK;
}

gw_status address_check(const char *text, gw_error *error) {
    char host[HOST_MAX];
    int port;
    return split(text, host, &port) ? GW_OK : malformed(text, error);
}

gw_status address_parse(const char *text, address *out, gw_error *error) {
    char host[HOST_MAX];
    int port;
    if (!split(text, host, &port)) return malformed(text, error);
    address a = { 0 };
    gw_status status = look_up(text, host, &a, error);
    if (status) return status;
    if (!is_loopback((const struct sockaddr *)&a.bytes))
        return error_set(error, GW_INVALID,
                         "%s: only loopback addresses (127.0.0.1, ::1, localhost) are allowed "
                         "until connections are encrypted",
                         text);
    set_port(&a, port);
    *out = a;
    return GW_OK;
}

int address_port(const address *a) {
    if (a->bytes.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&a->bytes)->sin_port);
    return ntohs(((const struct sockaddr_in6 *)&a->bytes)->sin6_port);
}

void address_format(const address *a, char out[ADDRESS_MAX]) {
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v4 = a->bytes.ss_family == AF_INET;
    const void *number = is_v4 ? (const void *)&((const struct sockaddr_in *)&a->bytes)->sin_addr
                               : &((const struct sockaddr_in6 *)&a->bytes)->sin6_addr;
    inet_ntop(a->bytes.ss_family, number, host, sizeof host);
    snprintf(out, ADDRESS_MAX, is_v4 ? "%s:%d" : "[%s]:%d", host, address_port(a));
}

bool address_equal(const address *a, const address *b) {
    char x[ADDRESS_MAX], y[ADDRESS_MAX];
    address_format(a, x);
    address_format(b, y);
    return strcmp(x, y) == 0;
}
