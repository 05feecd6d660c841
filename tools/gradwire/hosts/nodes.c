#include "hosts/nodes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"

enum { CLOSE_MS = 8000, INTERRUPT_MS = 4000, LOOK_AGAIN_MS = 5 };

bool nodes_open(nodes *n, const run_options *run, int port, const char *job_id) {
    int ends[2];
    heartbeats *b = heartbeats_open();
    if (!b || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        heartbeats_close(b);
        return false;
    }
    const link_options options = {
        .run = run, .port = port, .job_id = job_id, .launcher = getpid(), .heartbeats = b
    };
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

// The link leaves its job first, for which it has CLOSE_MS. While it still waits for other hosts to join, SIGTERM
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
}

void nodes_send_heartbeat(nodes *n) {
    if (!nodes_are_open(n)) return;
    atomic_fetch_add(&n->heartbeats->launcher, 1);
    n->next_heartbeat_ms = clock_now_ms() + HEARTBEAT_MS;
}

int64_t nodes_deadline_ms(const nodes *n) {
    return nodes_are_open(n) && !n->has_ended ? n->next_heartbeat_ms : INT64_MAX;
}

void nodes_send(nodes *n, link_kind kind, int number, const char *text) {
    bool counts_once = kind == LINK_FAILED || kind == LINK_DONE;
    if (!nodes_are_open(n) || (counts_once && n->has_reported_end)) return;
    n->has_reported_end |= counts_once;
    link_message m = { .kind = kind, .number = number };
    snprintf(m.text, sizeof m.text, "%s", text);
    // A message that cannot be sent because the link has ended has no effect any more.
    ssize_t sent = send(n->fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
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
