#include "nodes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { CLOSE_MS = 8000, INTERRUPT_MS = 4000, LOOK_AGAIN_MS = 5 };

bool nodes_open(nodes *n, const run_options *run, int port, const char *job_id) {
    int ends[2];
    beats *b = beats_open();
    if (!b || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        beats_close(b);
        return false;
    }
    const link_options options = {
        .run = run, .port = port, .job_id = job_id, .launcher = getpid(), .beats = b
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
        beats_close(b);
        errno = error;
        return false;
    }
    *n = (nodes){ .pid = pid, .fd = ends[0], .beats = b };
    return true;
}

// It says goodbye to the others first, as long as that takes no longer than they may need; while it
// waits for them, it is interrupted, and says that it waits no more (JOIN-8).
static void wait_for_link(nodes *n) {
    const struct timespec pause = { .tv_nsec = LOOK_AGAIN_MS * 1000000 };
    int64_t until_ms = clock_now_ms() + (n->has_ended ? 0 : n->has_met ? CLOSE_MS : INTERRUPT_MS);
    while (n->pid) {
        pid_t pid = waitpid(n->pid, NULL, WNOHANG);
        if (pid == n->pid || (pid < 0 && errno != EINTR)) n->pid = 0;
        if (!n->pid) return;
        // Again, as it may not have begun to wait.
        if (!n->has_met) kill(n->pid, SIGTERM);
        if (clock_now_ms() >= until_ms) kill(n->pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
}

void nodes_close(nodes *n) {
    if (!nodes_are_there(n)) return;
    close(n->fd);
    n->fd = -1;
    wait_for_link(n);
    beats_close(n->beats);
    n->beats = NULL;
}

void nodes_beat(nodes *n) {
    if (!nodes_are_there(n)) return;
    atomic_fetch_add(&n->beats->launcher, 1);
    n->next_beat_ms = clock_now_ms() + BEAT_MS;
}

int64_t nodes_deadline_ms(const nodes *n) {
    return nodes_are_there(n) && !n->has_ended ? n->next_beat_ms : INT64_MAX;
}

void nodes_tell(nodes *n, link_kind kind, int number, const char *text) {
    bool counts_once = kind == LINK_FAILED || kind == LINK_DONE;
    if (!nodes_are_there(n) || (counts_once && n->has_told)) return;
    n->has_told |= counts_once;
    link_message m = { .kind = kind, .number = number };
    snprintf(m.text, sizeof m.text, "%s", text);
    // What cannot be sent because the link has ended is no matter any more.
    ssize_t sent = send(n->fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

static void link_is_lost(nodes *n, link_message *out, const char *why) {
    n->has_ended = true;
    *out = (link_message){ .kind = LINK_LOST, .node = -1 };
    snprintf(out->text, sizeof out->text, "the process that talks to the other hosts %s", why);
}

bool nodes_take(nodes *n, link_message *out) {
    if (!nodes_are_there(n) || n->has_ended) return false;
    ssize_t size = recv(n->fd, out, sizeof *out, MSG_DONTWAIT);
    bool is_there = size < 0 && (errno == EAGAIN || errno == EINTR);
    if (size == (ssize_t)sizeof *out) return true;
    if (!is_there)
        link_is_lost(n, out, "has ended");
    else if (pulse_is_silent(&n->link_pulse, atomic_load(&n->beats->link), clock_now_ms()))
        link_is_lost(n, out, "has not run for 7 s");
    return n->has_ended;
}
