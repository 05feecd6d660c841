#include "system/channels.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

static bool listen_at(int fd, const char *mark) {
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int size = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "gradwire/%s", mark);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    return bind(fd, (struct sockaddr *)&at, length) == 0 && listen(fd, BACKLOG) == 0;
}

// An entry of the set is a channel, or NULL for the one that listens.
static bool watch(const channels *c, int fd, channel *of) {
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = of };
    return epoll_ctl(c->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool channels_open(channels *c, const char *mark) {
    *c = (channels){ .poll_fd = epoll_create1(EPOLL_CLOEXEC),
                     .listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) };
    if (c->poll_fd >= 0 && c->listen_fd >= 0 && listen_at(c->listen_fd, mark) &&
        watch(c, c->listen_fd, NULL))
        return true;
    channels_close(c);
    return false;
}

static void close_channel(channels *c, int i) {
    if (c->current == c->list[i]) c->current = NULL;
    // close() leaves it in the set while a rank that is starting has a copy of the descriptor, until it runs its program.
    epoll_ctl(c->poll_fd, EPOLL_CTL_DEL, c->list[i]->fd, NULL);
    close(c->list[i]->fd);
    free(c->list[i]);
    c->list[i] = c->list[--c->count];
    if (c->is_full) c->is_full = !watch(c, c->listen_fd, NULL);
}

void channels_close(channels *c) {
    c->is_full = false;
    while (c->count > 0) close_channel(c, c->count - 1);
    if (c->poll_fd >= 0) close(c->poll_fd);
    if (c->listen_fd >= 0) close(c->listen_fd);
    free(c->list);
    *c = (channels){ .poll_fd = -1, .listen_fd = -1 };
}

static bool has_room(channels *c) {
    if (c->count < c->capacity) return true;
    int more = c->capacity ? 2 * c->capacity : 64;
    channel **larger = realloc(c->list, (size_t)more * sizeof *larger);
    if (!larger) return false;
    c->list = larger;
    c->capacity = more;
    return true;
}

// The pid of the process that has connected, if it is of this user; else 0.
static pid_t find_peer(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool is_known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    return is_known && peer.uid == geteuid() ? peer.pid : 0;
}

static void add_channel(channels *c, int fd) {
    pid_t pid = find_peer(fd);
    channel *new = pid > 0 && has_room(c) ? malloc(sizeof *new) : NULL;
    if (!new || !watch(c, fd, new)) {
        free(new);
        close(fd);
        return;
    }
    new->fd = fd;
    new->pid = pid;
    new->incarnation = 0;
    new->in_size = new->line_size = 0;
    c->list[c->count++] = new;
}

static void accept_all(channels *c) {
    for (;;) {
        int fd = accept4(c->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            add_channel(c, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            // Otherwise epoll would report it for ever. Without an open channel no descriptor becomes free later.
            epoll_ctl(c->poll_fd, EPOLL_CTL_DEL, c->listen_fd, NULL);
            c->is_full = true;
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

// The next whole line of those received already. A line that is too long is discarded.
static const char *next_line(channel *l) {
    memmove(l->in, l->in + l->line_size, l->in_size - l->line_size);
    l->in_size -= l->line_size;
    char *end = memchr(l->in, '\n', l->in_size);
    l->line_size = end ? (size_t)(end + 1 - l->in) : 0;
    if (!end && l->in_size == sizeof l->in) l->in_size = 0;
    if (!end) return NULL;
    *end = '\0';
    return l->in;
}

// False: it is closed now.
static bool receive(channels *c, int i) {
    channel *l = c->list[i];
    ssize_t n = recv(l->fd, l->in + l->in_size, sizeof l->in - l->in_size, 0);
    if (n > 0) l->in_size += (size_t)n;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return true;
    close_channel(c, i);
    return false;
}

static int find(const channels *c, const channel *l) {
    for (int i = 0; i < c->count; i++)
        if (c->list[i] == l) return i;
    return -1;
}

const char *channels_take(channels *c, channel **out_from) {
    for (;;) {
        // Lines received together with the last one are read first, without a system call.
        const char *line = c->current ? next_line(c->current) : NULL;
        *out_from = c->current;
        if (line) return line;
        c->current = NULL;
        struct epoll_event ready;
        if (c->poll_fd < 0 || epoll_wait(c->poll_fd, &ready, 1, 0) != 1) return NULL;
        channel *l = ready.data.ptr;
        if (!l)
            accept_all(c);
        else if (receive(c, find(c, l)))
            c->current = l;
    }
}

void channel_send(const channel *to, const char *line) {
    struct iovec parts[] = { { (void *)(uintptr_t)line, strlen(line) },
                             { (void *)(uintptr_t) "\n", 1 } };
    struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t sent = sendmsg(to->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}
