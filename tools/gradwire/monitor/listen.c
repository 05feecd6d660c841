#include "monitor/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system_error.h"
#include "net/transport/address.h"

// ---- Sockets ------------------------------------------------------------------------------------

static int refuse_address(const char *where, const char *reason, char *why, size_t why_size) {
    snprintf(why, why_size, "cannot listen on %s: %s", where, reason);
    return -1;
}

// -1: |why| has the reason.
static int listen_on(const char *where, char *why, size_t why_size) {
    enum { BACKLOG = 64 };
    const int yes = 1;
    address at;
    gw_error error;
    if (address_parse(where, &at, &error)) return refuse_address(where, error.text, why, why_size);
    int fd = socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, (struct sockaddr *)&at.bytes, at.size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int number = errno;
    if (fd >= 0) close(fd);
    return refuse_address(where, system_error_text(number).text, why, why_size);
}

static int port_of(int fd) {
    address at = { .size = sizeof at.bytes };
    return getsockname(fd, (struct sockaddr *)&at.bytes, &at.size) == 0 ? address_port(&at) : 0;
}

// ---- The token ----------------------------------------------------------------------------------

static bool refuse_file(const char *path, const char *reason, char *why, size_t why_size) {
    snprintf(why, why_size, "--metrics-token-file: %s: %s", path, reason);
    return false;
}

// The first line, which has printable characters without spaces.
static bool take_token(char *text, size_t size, char out[SITE_TOKEN_MAX + 1]) {
    text[size] = '\0';
    size_t length = strcspn(text, "\r\n");
    if (length == 0 || length > SITE_TOKEN_MAX) return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

static bool read_token(const char *path, char out[SITE_TOKEN_MAX + 1], char *why, size_t why_size) {
    char text[SITE_TOKEN_MAX + 3];
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 && fstat(fd, &is) == 0 ? read(fd, text, sizeof text - 1) : -1;
    int number = errno;
    if (fd >= 0) close(fd);
    if (n < 0) return refuse_file(path, system_error_text(number).text, why, why_size);
    if (is.st_mode & (S_IRWXG | S_IRWXO))
        return refuse_file(path, "other users have access to it; chmod 600", why, why_size);
    if (!take_token(text, (size_t)n, out))
        return refuse_file(path, "its first line is no token of 1 to 256 characters", why,
                           why_size);
    return true;
}

// ---- All ----------------------------------------------------------------------------------------

static bool open_page(monitor_site *x, const monitor_options *o, char *why, size_t why_size) {
    char where[32];
    snprintf(where, sizeof where, "127.0.0.1:%d", o->port);
    if (!site_make_key(x->page.secret)) {
        snprintf(why, why_size, "no random numbers: %s", system_error_text(errno).text);
        return false;
    }
    x->page_fd = listen_on(where, why, why_size);
    x->page.port = x->page_fd >= 0 ? port_of(x->page_fd) : 0;
    return x->page_fd >= 0;
}

static bool open_metrics(monitor_site *x, const monitor_options *o, char *why, size_t why_size) {
    if (!o->metrics_listen) return true;
    x->metrics.is_metrics = true;
    x->metrics.is_open = !o->token_file;
    if (o->token_file && !read_token(o->token_file, x->metrics.secret, why, why_size)) return false;
    x->metrics_fd = listen_on(o->metrics_listen, why, why_size);
    return x->metrics_fd >= 0;
}

bool monitor_site_open(monitor_site *x, const monitor_options *o, char *why, size_t why_size) {
    *x = (monitor_site){ .page_fd = -1, .metrics_fd = -1 };
    if (open_page(x, o, why, why_size) && open_metrics(x, o, why, why_size)) return true;
    monitor_site_close(x);
    return false;
}

void monitor_site_close(monitor_site *x) {
    if (x->page_fd >= 0) close(x->page_fd);
    if (x->metrics_fd >= 0) close(x->metrics_fd);
    x->page_fd = x->metrics_fd = -1;
}

void monitor_site_address(const monitor_site *x, char *out, size_t size) {
    snprintf(out, size, "http://127.0.0.1:%d/?key=%s", x->page.port, x->page.secret);
}
