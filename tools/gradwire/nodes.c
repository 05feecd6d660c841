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

enum { CLOSE_MS = 8000, LOOK_AGAIN_MS = 5 };

bool nodes_open(nodes *n, const run_options *run, int port, const char *job_id) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
    const link_options options = {
        .run = run, .port = port, .job_id = job_id, .launcher = getpid()
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
        errno = error;
        return false;
    }
    *n = (nodes){ .pid = pid, .fd = ends[0] };
    return true;
}

// It says goodbye to the others first, as long as that takes no longer than they may need; while it
// waits for them there is nobody to say it to.
static void wait_for_link(nodes *n) {
    const struct timespec pause = { .tv_nsec = LOOK_AGAIN_MS * 1000000 };
    int64_t until_ms = n->has_met ? clock_now_ms() + CLOSE_MS : 0;
    while (n->pid) {
        pid_t pid = waitpid(n->pid, NULL, WNOHANG);
        if (pid == n->pid || (pid < 0 && errno != EINTR)) n->pid = 0;
        if (!n->pid) return;
        if (clock_now_ms() >= until_ms) kill(n->pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
}

void nodes_close(nodes *n) {
    if (!nodes_are_there(n)) return;
    close(n->fd);
    n->fd = -1;
    wait_for_link(n);
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

bool nodes_take(nodes *n, link_message *out) {
    if (!nodes_are_there(n) || n->has_ended) return false;
    ssize_t size = recv(n->fd, out, sizeof *out, MSG_DONTWAIT);
    if (size == (ssize_t)sizeof *out) return true;
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    n->has_ended = true;
    *out = (link_message){ .kind = LINK_LOST, .node = -1 };
    snprintf(out->text, sizeof out->text, "the process that talks to the other hosts has ended");
    return true;
}
