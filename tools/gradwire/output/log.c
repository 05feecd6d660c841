#include "output/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

bool log_open(log_file *l, const char *path) {
    *l = (log_file){ .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666) };
    return l->fd >= 0;
}

void log_close(log_file *l) {
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

// Files take what they are given whole, or say that there is no more room.
void log_put(log_file *l, const char *line, size_t size) {
    struct iovec parts[2] = { { (char *)line, size }, { "\n", 1 } };
    if (l->fd < 0) return;
    ssize_t n;
    do n = writev(l->fd, parts, 2);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)size + 1) return;
    l->error = n < 0 ? errno : ENOSPC;
    log_close(l);
}
