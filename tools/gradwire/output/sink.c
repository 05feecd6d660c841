#include "output/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HIGH_WATER = 256 * 1024,
    // Beyond it: one read of 64 KiB that holds nothing but ends of lines, each of which gets a
    // prefix.
    CAPACITY = 1024 * 1024,
    SAY_MAX = 8192,
};

// Blocking or not is a property of the open file, which we share with our shell and others; so open
// it once more. Not regular files: opened again they would have a position of their own.
static int open_without_blocking(int fd) {
    struct stat about;
    if (fstat(fd, &about) != 0) return -1;
    if (!S_ISFIFO(about.st_mode) && !(S_ISCHR(about.st_mode) && isatty(fd))) return -1;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool is_socket(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode);
}

bool sink_open(sink *s, int fd) {
    *s = (sink){ .fd = fd, .is_socket = is_socket(fd), .data = malloc(CAPACITY) };
    if (!s->data) return false;
    int own_fd = open_without_blocking(fd);
    if (own_fd >= 0) {
        s->fd = own_fd;
        s->own_fd = true;
    }
    return true;
}

void sink_close(sink *s) {
    if (s->own_fd) close(s->fd);
    free(s->data);
    *s = (sink){ .fd = -1 };
}

bool sink_has_room(const sink *s) {
    return s->end - s->begin < HIGH_WATER;
}

bool sink_is_empty(const sink *s) {
    return s->begin == s->end;
}

void sink_put(sink *s, const void *data, size_t size) {
    if (s->is_broken) return;
    if (s->end + size > CAPACITY) {
        memmove(s->data, s->data + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->begin = 0;
        if (s->end + size > CAPACITY) return;
    }
    memcpy(s->data + s->end, data, size);
    s->end += size;
}

static ssize_t write_some(const sink *s) {
    size_t size = s->end - s->begin;
    const char *data = s->data + s->begin;
    if (s->is_socket) return send(s->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (s->own_fd) return write(s->fd, data, size);
    // A pipe that could not be opened again takes this much without blocking once it is ready.
    struct pollfd ready = { .fd = s->fd, .events = POLLOUT };
    if (poll(&ready, 1, 0) == 0) return errno = EAGAIN, -1;
    return write(s->fd, data, size < PIPE_BUF ? size : PIPE_BUF);
}

// A full disk may have room again later; a pipe without a reader stays broken.
static void give_up(sink *s, int error) {
    if (!s->error) s->error = error;
    s->is_broken = error == EPIPE || error == EIO || error == ECONNRESET;
    s->begin = s->end;
}

void sink_flush(sink *s) {
    while (!sink_is_empty(s)) {
        ssize_t n = write_some(s);
        if (n >= 0) {
            s->begin += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            give_up(s, errno);
        }
    }
    s->begin = s->end = 0;
}

void sink_print(sink *s, const char *format, ...) {
    char text[SAY_MAX] = "gradwire: ";
    size_t size = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + size, sizeof text - size - 1, format, arguments);
    va_end(arguments);
    if (n < 0) return;
    size += (size_t)n < sizeof text - size - 1 ? (size_t)n : sizeof text - size - 2;
    text[size++] = '\n';
    sink_put(s, text, size);
}

bool sink_is_same_file(int fd, int other_fd) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstat(other_fd, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}
