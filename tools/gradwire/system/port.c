#include "system/port.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/transport/address.h"

// Of a host that is not this machine's, or that is not known yet, any will do.
static void find(const char *host, address *out) {
    char text[ADDRESS_MAX];
    snprintf(text, sizeof text, strchr(host, ':') ? "[%.100s]:0" : "%.100s:0", host);
    if (address_parse(text, out, NULL)) address_parse("0.0.0.0:0", out, NULL);
}

static bool bind_anywhere(int fd, address *at) {
    bool is_v6 = at->bytes.ss_family == AF_INET6;
    return !address_parse(is_v6 ? "[::]:0" : "0.0.0.0:0", at, NULL) &&
           bind(fd, (struct sockaddr *)&at->bytes, at->size) == 0;
}

int port_reserve(const char *host, int *out_fd) {
    address at;
    find(host, &at);
    const int yes = 1;
    int fd = socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    // Sharing is allowed only after bind: before it, a shared port of another process could be chosen.
    if ((bind(fd, (struct sockaddr *)&at.bytes, at.size) != 0 && !bind_anywhere(fd, &at)) ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        getsockname(fd, (struct sockaddr *)&at.bytes, &at.size) != 0) {
        close(fd);
        return 0;
    }
    *out_fd = fd;
    return address_port(&at);
}

bool port_is_free(const char *endpoint) {
    address at;
    const int yes = 1;
    if (address_parse(endpoint, &at, NULL)) return false;
    int fd = socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                   bind(fd, (struct sockaddr *)&at.bytes, at.size) == 0;
    if (fd >= 0) close(fd);
    return is_free;
}
