#include "hosts/nodes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"

enum { CLOSE_MS = 12000, INTERRUPT_MS = 4000, LOOK_AGAIN_MS = 5 };

bool nodes_open(nodes *n, const nodes_options *o) {
    int ends[2];
    heartbeats *b = heartbeats_open();
    if (!b || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        heartbeats_close(b);
        return false;
    }
    const link_options options = { .run = o->run,
                                   .port = o->port,
                                   .job_id = o->job_id,
                                   .launcher = getpid(),
                                   .heartbeats = b,
                                   .mark = o->mark,
                                   .looks_fd = o->looks_fd };
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        link_main(ends[1], &options);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        heartbeats_close(b);
        errno = error;
        return false;
    }
    *n = (nodes){ .pid = pid, .fd = ends[0], .heartbeats = b };
    return true;
}

// The link sends its last report and leaves its job first, for which it has CLOSE_MS. While it still waits for other hosts to join, SIGTERM
// interrupts it, and it sets the key that ends their joining (JOIN-8).
static void wait_for_link(nodes *n) {
    const struct timespec pause = { .tv_nsec = LOOK_AGAIN_MS * 1000000 };
    int64_t until_ms = clock_now_ms() + (n->has_ended ? 0 : n->has_met ? CLOSE_MS : INTERRUPT_MS);
    while (n->pid) {
        pid_t pid = waitpid(n->pid, NULL, WNOHANG);
        if (pid == n->pid || (pid < 0 && errno != EINTR)) n->pid = 0;
        if (!n->pid) return;
        // Repeated, as the link may not wait yet.
        if (!n->has_met) kill(n->pid, SIGTERM);
        if (clock_now_ms() >= until_ms) kill(n->pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
}

void nodes_close(nodes *n) {
    if (!nodes_are_open(n)) return;
    close(n->fd);
    n->fd = -1;
    wait_for_link(n);
    heartbeats_close(n->heartbeats);
    n->heartbeats = NULL;
    free(n->backlog);
    n->backlog = NULL;
    n->backlog_count = n->backlog_capacity = 0;
}

void nodes_send_heartbeat(nodes *n) {
    if (!nodes_are_open(n)) return;
    atomic_fetch_add(&n->heartbeats->launcher, 1);
    n->next_heartbeat_ms = clock_now_ms() + HEARTBEAT_MS;
}

int64_t nodes_deadline_ms(const nodes *n) {
    return nodes_are_open(n) && !n->has_ended ? n->next_heartbeat_ms : INT64_MAX;
}

// Returns false if the socket has no space. A message that cannot be sent because the link has ended has no effect any more.
static bool try_to_send(const nodes *n, const link_message *m) {
    return send(n->fd, m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
           (errno != EAGAIN && errno != EINTR);
}

void nodes_flush(nodes *n) {
    int sent = 0;
    while (sent < n->backlog_count && try_to_send(n, &n->backlog[sent])) sent++;
    n->backlog_count -= sent;
    if (sent) memmove(n->backlog, n->backlog + sent, (size_t)n->backlog_count * sizeof *n->backlog);
}

// Without memory the message is lost, as with a link that has ended.
static void keep(nodes *n, const link_message *m) {
    if (n->backlog_count == n->backlog_capacity) {
        int more = n->backlog_capacity ? 2 * n->backlog_capacity : 16;
        link_message *larger = realloc(n->backlog, (size_t)more * sizeof *larger);
        if (!larger) return;
        n->backlog = larger;
        n->backlog_capacity = more;
    }
    n->backlog[n->backlog_count++] = *m;
}

void nodes_send(nodes *n, const link_message *m) {
    bool counts_once = m->kind == LINK_FAILED || m->kind == LINK_DONE;
    if (!nodes_are_open(n) || n->has_ended || (counts_once && n->has_reported_end)) return;
    n->has_reported_end |= counts_once;
    nodes_flush(n);
    if (n->backlog_count || !try_to_send(n, m)) keep(n, m);
}

static void link_is_lost(nodes *n, link_message *out, const char *why) {
    n->has_ended = true;
    *out = (link_message){ .kind = LINK_LOST, .node = -1 };
    snprintf(out->text, sizeof out->text, "the link to the other hosts %s", why);
}

bool nodes_take(nodes *n, link_message *out) {
    if (!nodes_are_open(n) || n->has_ended) return false;
    ssize_t size = recv(n->fd, out, sizeof *out, MSG_DONTWAIT);
    bool is_there = size < 0 && (errno == EAGAIN || errno == EINTR);
    if (size == (ssize_t)sizeof *out) return true;
    if (!is_there)
        link_is_lost(n, out, "has ended");
    else if (heartbeat_is_silent(&n->link_heartbeat, atomic_load(&n->heartbeats->link),
                                 clock_now_ms()))
        link_is_lost(n, out, "has not run for 7 s");
    return n->has_ended;
}
