#include "deaths.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WORKERS_MAX = 1024 };

// A connected worker, and the bytes of its next line.
typedef struct channel {
    int fd;
    pid_t pid;
    uint64_t incarnation;  // once it has joined
    char in[2048];
    size_t size;
} channel;

static channel *channels[WORKERS_MAX];
static int channel_count, listen_fd = -1;

// Adds our own mark to the marks of the job; the children find this process by it.
static int make_mark(char *out, size_t size) {
    uint64_t bits;
    char marks[512];
    const char *outer = getenv("GRADWIRE_JOB");
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits) return -1;
    snprintf(out, size, "%016" PRIx64, bits);
    int n = snprintf(marks, sizeof marks, "%s%s%s", outer ? outer : "", outer ? ":" : "", out);
    return n < (int)sizeof marks ? setenv("GRADWIRE_JOB", marks, 1) : -1;
}

static int watch(int set, int fd, channel *of) {
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = of };
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

int deaths_open(void) {
    char mark[32];
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int set = epoll_create1(EPOLL_CLOEXEC);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (set >= 0 && listen_fd >= 0 && make_mark(mark, sizeof mark) == 0) {
        int size = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "gradwire/%s", mark);
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
        if (bind(listen_fd, (struct sockaddr *)&at, length) == 0 &&
            listen(listen_fd, WORKERS_MAX) == 0 && watch(set, listen_fd, NULL) == 0)
            return set;
    }
    if (set >= 0) close(set);
    return -1;
}

static void accept_one(int set) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    bool is_ours = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                   peer.uid == geteuid() && channel_count < WORKERS_MAX;
    channel *c = is_ours ? calloc(1, sizeof *c) : NULL;
    if (!c || watch(set, fd, c)) {
        free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    c->pid = peer.pid;
    channels[channel_count++] = c;
}

// The worker has ended or reports no more. Other workers may still declare it dead.
static void close_channel(channel *c) {
    close(c->fd);
    c->fd = -1;
}

static pid_t find_process(uint64_t incarnation) {
    for (int i = 0; i < channel_count; i++)
        if (channels[i]->incarnation == incarnation) return channels[i]->pid;
    return 0;
}

// Takes one line from |c|. Returns the process that the line declares dead, or 0.
static pid_t read_line(channel *c, char *end) {
    char word[16];
    uint64_t incarnation;
    *end = '\0';
    bool is_complete = sscanf(c->in, "%15s %16" SCNx64, word, &incarnation) == 2;
    size_t taken = (size_t)(end + 1 - c->in);
    memmove(c->in, end + 1, c->size - taken);
    c->size -= taken;
    if (is_complete && strcmp(word, "joins") == 0) c->incarnation = incarnation;
    return is_complete && strcmp(word, "dead") == 0 ? find_process(incarnation) : 0;
}

static pid_t read_lines(void) {
    for (int i = 0; i < channel_count; i++) {
        channel *c = channels[i];
        for (char *end; (end = memchr(c->in, '\n', c->size));) {
            pid_t dead = read_line(c, end);
            if (dead) return dead;
        }
    }
    return 0;
}

static void receive(channel *c) {
    if (c->size == sizeof c->in) c->size = 0;  // a line that is too long is ignored
    ssize_t n = recv(c->fd, c->in + c->size, sizeof c->in - c->size, 0);
    if (n > 0)
        c->size += (size_t)n;
    else if (n == 0)
        close_channel(c);
}

pid_t deaths_take(int set) {
    struct epoll_event ready;
    pid_t dead = read_lines();
    while (!dead && set >= 0 && epoll_wait(set, &ready, 1, 0) == 1) {
        if (ready.data.ptr)
            receive(ready.data.ptr);
        else
            accept_one(set);
        dead = read_lines();
    }
    return dead;
}
