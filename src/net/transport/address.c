#include "net/transport/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

enum { HOST_MAX = ADDRESS_MAX, PORT_MAX = 65535 };

static gw_status malformed(const char *text, gw_error *error) {
    return error_set(error, GW_INVALID,
                     "\"%.200s\" is not an address: it must be host:port, as in 127.0.0.1:29500 or "
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
        bool is_alpha = (text[i] | 32) >= 'a' && (text[i] | 32) <= 'z';
        bool is_digit = text[i] >= '0' && text[i] <= '9';
        if (!is_alpha && !is_digit && !memchr(".:-_%", text[i], 5)) return false;
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

static bool is_mapped_v4(const struct in6_addr *a, uint32_t *out_v4) {
    if (!IN6_IS_ADDR_V4MAPPED(a)) return false;
    memcpy(out_v4, a->s6_addr + 12, sizeof *out_v4);
    *out_v4 = ntohl(*out_v4);
    return true;
}

// "::ffff:127.0.0.1" is another way to write 127.0.0.1.
static bool find_v4(const address *a, uint32_t *out) {
    const struct sockaddr *any = (const struct sockaddr *)&a->bytes;
    if (any->sa_family == AF_INET) {
        *out = ntohl(((const struct sockaddr_in *)any)->sin_addr.s_addr);
        return true;
    }
    return any->sa_family == AF_INET6 &&
           is_mapped_v4(&((const struct sockaddr_in6 *)any)->sin6_addr, out);
}

static const struct in6_addr *find_v6(const address *a) {
    if (a->bytes.ss_family != AF_INET6) return &in6addr_any;
    return &((const struct sockaddr_in6 *)&a->bytes)->sin6_addr;
}

bool address_is_loopback(const address *a) {
    uint32_t v4;
    return find_v4(a, &v4) ? v4 >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(find_v6(a));
}

bool address_is_any(const address *a) {
    uint32_t v4;
    return find_v4(a, &v4) ? v4 == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(find_v6(a));
}

bool address_is_link_local(const address *a) {
    uint32_t v4;
    return find_v4(a, &v4) ? v4 >> 16 == 0xA9FE : IN6_IS_ADDR_LINKLOCAL(find_v6(a));
}

bool address_bytes(const address *a, uint8_t out[16]) {
    if (a->bytes.ss_family == AF_INET6) {
        memcpy(out, find_v6(a), 16);
        return true;
    }
    if (a->bytes.ss_family != AF_INET) return false;
    memset(out, 0, 10);
    memset(out + 10, 0xff, 2);
    memcpy(out + 12, &((const struct sockaddr_in *)&a->bytes)->sin_addr, 4);
    return true;
}

bool host_is_loopback(const char *host) {
    struct in_addr v4;
    if (!strcmp(host, "localhost") || !strcmp(host, "::1") || !strcmp(host, "[::1]")) return true;
    return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

void address_set_port(address *a, int port) {
    if (a->bytes.ss_family == AF_INET) {
        ((struct sockaddr_in *)&a->bytes)->sin_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in6 *)&a->bytes)->sin6_port = htons((uint16_t)port);
    }
}

// Addresses of this machine are first, since they are reachable whatever the state of the network.
static void add_found(const struct addrinfo *found, bool loopback, address *out, int limit,
                      int *count) {
    for (const struct addrinfo *i = found; i && *count < limit; i = i->ai_next) {
        address a = { .size = i->ai_addrlen };
        if (i->ai_addrlen > sizeof a.bytes) continue;
        memcpy(&a.bytes, i->ai_addr, i->ai_addrlen);
        if (address_is_loopback(&a) == loopback) out[(*count)++] = a;
    }
}

static gw_status look_up(const char *text, const char *host, address *out, int limit,
                         int *out_count, gw_error *error) {
    // A machine may list ::1 first for this name, and have its servers listen on 127.0.0.1.
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed == EAI_MEMORY) return error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
    if (failed) return error_set(error, GW_NOT_FOUND, "%s: %s", text, gai_strerror(failed));
    *out_count = 0;
    add_found(found, true, out, limit, out_count);
    add_found(found, false, out, limit, out_count);
    freeaddrinfo(found);
    if (*out_count > 0) return GW_OK;
    return error_set(error, GW_NOT_FOUND, "%s: it has no address", text);
}

gw_status host_check(const char *what, const char *host, gw_error *error) {
    char bare[HOST_MAX];
    size_t size = strlen(host);
    bool has_brackets = size > 2 && host[0] == '[' && host[size - 1] == ']';
    snprintf(bare, sizeof bare, "%.*s", (int)(size - 2 * has_brackets), host + has_brackets);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int failed = getaddrinfo(bare, NULL, &hints, &found);
    if (!failed) freeaddrinfo(found);
    if (!failed || failed == EAI_MEMORY) return GW_OK;
    return error_set(error, GW_NOT_FOUND, "%s is \"%s\", a name that does not resolve: %s", what,
                     host, gai_strerror(failed));
}

gw_status address_check(const char *text, gw_error *error) {
    char host[HOST_MAX];
    int port;
    return split(text, host, &port) ? GW_OK : malformed(text, error);
}

gw_status address_resolve(const char *text, address *out, int limit, int *out_count,
                          gw_error *error) {
    char host[HOST_MAX];
    int port;
    if (!split(text, host, &port)) return malformed(text, error);
    gw_status status = look_up(text, host, out, limit, out_count, error);
    for (int i = 0; !status && i < *out_count; i++) address_set_port(&out[i], port);
    return status;
}

gw_status address_parse(const char *text, address *out, gw_error *error) {
    int count;
    return address_resolve(text, out, 1, &count, error);
}

int address_port(const address *a) {
    if (a->bytes.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&a->bytes)->sin_port);
    return ntohs(((const struct sockaddr_in6 *)&a->bytes)->sin6_port);
}

// An address that needs its interface is written with it: "fe80::1%eth0".
void address_format(const address *a, char out[ADDRESS_MAX]) {
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 2] = "?";
    bool is_v4 = a->bytes.ss_family == AF_INET;
    getnameinfo((const struct sockaddr *)&a->bytes, a->size, host, sizeof host, NULL, 0,
                NI_NUMERICHOST);
    snprintf(out, ADDRESS_MAX, is_v4 ? "%s:%d" : "[%s]:%d", host, address_port(a));
}

bool address_equal(const address *a, const address *b) {
    char x[ADDRESS_MAX], y[ADDRESS_MAX];
    address_format(a, x);
    address_format(b, y);
    return strcmp(x, y) == 0;
}
