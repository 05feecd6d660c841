// The connection to the launcher: docs/protocol/launcher.md.
#include "net/loop/loop.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECT_MS = 2000,         // while the launcher is stopped and its queue is full
    UNSENT_MAX = 1024 * 1024,  // bytes of reports that a stopped launcher has not read
};

// A job inside a job carries both marks; the inner one is the last.
static const char *find_mark(void) {
    const char *marks = getenv("GRADWIRE_JOB");
    const char *last = marks ? strrchr(marks, ':') : NULL;
    return last ? last + 1 : marks;
}

static int connect_to(const char *mark) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int size = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "gradwire/%s", mark);
    if (size >= (int)sizeof to.sun_path - 1) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const struct timeval limit = { .tv_sec = CONNECT_MS / 1000 };
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
        connect(fd, (struct sockaddr *)&to, length) == 0)
        return fd;
    close(fd);
    return -1;
}

static void close_connection(os_env *o) {
    launcher_connection *c = &o->launcher;
    if (!c->is_open) return;
    loop_remove(o, c->fd);
    close(c->fd);
    c->is_open = false;
    bytes_fini(&c->out);
}

// Sends as much as the launcher's queue takes; the rest when it is writable.
static void send_reports(os_env *o) {
    launcher_connection *c = &o->launcher;
    while (c->out_done < c->out.size) {
        ssize_t n = send(c->fd, c->out.data + c->out_done, c->out.size - c->out_done,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) close_connection(o);
        if (n < 0) break;
        c->out_done += (size_t)n;
    }
    if (!c->is_open) return;
    bool is_waiting = c->out_done < c->out.size;
    if (!is_waiting) c->out.size = c->out_done = 0;
    loop_change(o, c->fd, &c->source, is_waiting ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// Passes each whole line to |on_line|. A line that does not fit is from another version and is dropped.
static void take_lines(launcher_connection *c) {
    for (char *end; (end = memchr(c->in, '\n', c->in_size));) {
        *end = '\0';
        if (c->on_line) c->on_line(c->user, c->in);
        size_t taken = (size_t)(end + 1 - c->in);
        memmove(c->in, c->in + taken, c->in_size - taken);
        c->in_size -= taken;
    }
    if (c->in_size == sizeof c->in) c->in_size = 0;
}

static void receive_lines(os_env *o) {
    launcher_connection *c = &o->launcher;
    ssize_t n = recv(c->fd, c->in + c->in_size, sizeof c->in - c->in_size, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) close_connection(o);
    if (n <= 0) return;
    c->in_size += (size_t)n;
    take_lines(c);
}

static void ready(source *s, uint32_t events) {
    os_env *o = (os_env *)(void *)((char *)s - offsetof(os_env, launcher.source));
    if (o->launcher.is_open && (events & EPOLLOUT)) send_reports(o);
    if (o->launcher.is_open && (events & ~(uint32_t)EPOLLOUT)) receive_lines(o);
}

static const source_class polled = { .ready = ready };

// Once for each env, at its first report: if no launcher listens then, there is none.
static void open_connection(os_env *o) {
    launcher_connection *c = &o->launcher;
    const char *mark = c->was_tried ? NULL : find_mark();
    c->was_tried = true;
    if (!mark || (c->fd = connect_to(mark)) < 0) return;
    c->source.class = &polled;
    c->is_open = !loop_add(o, c->fd, &c->source, EPOLLIN, NULL);
    if (!c->is_open) close(c->fd);
}

void os_report_to_launcher(env *e, const char *line) {
    os_env *o = (os_env *)e;
    launcher_connection *c = &o->launcher;
    open_connection(o);
    size_t before = c->out.size;
    if (!c->is_open || before > UNSENT_MAX) return;
    bytes_put(&c->out, line, strlen(line));
    bytes_put(&c->out, "\n", 1);
    if (c->out.failed) {
        c->out.failed = false;
        c->out.size = before;
        return;
    }
    for (size_t i = before; i + 1 < c->out.size; i++)
        if (c->out.data[i] == '\n') c->out.data[i] = ' ';
    send_reports(o);
}

void os_listen_to_launcher(env *e, void (*on_line)(void *user, const char *line), void *user) {
    os_env *o = (os_env *)e;
    o->launcher.on_line = on_line;
    o->launcher.user = user;
}

void launcher_fini(os_env *o) {
    close_connection(o);
}
