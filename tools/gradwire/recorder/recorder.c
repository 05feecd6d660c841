#include "recorder/recorder.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "observe/levels.h"
#include "recorder/recorder_main.h"
#include "system/pass_fd.h"
#include "system/signals.h"
#include "timeline/file.h"

static bool can_be_written(const char *path) {
    trace_file f;
    bool ok = trace_file_open(&f, path, false);
    if (ok) trace_file_close(&f);
    return ok;
}

bool recorder_open(recorder *r, const trace_option *o) {
    int ends[2];
    if (!can_be_written(o->file)) return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        recorder_main(ends[1], o);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = error;
        return false;
    }
    *r = (recorder){ .pid = pid, .fd = ends[0] };
    return true;
}

void recorder_prepare(const trace_option *o, int fd) {
    if (o->file[0]) levels_request(fd, o->levels);
}

bool recorder_add(const recorder *r, int fd) {
    const recorder_message message = { 0 };
    return r->pid && pass_fd(r->fd, &message, sizeof message, fd);
}

static void forget(recorder *r) {
    close(r->fd);
    *r = (recorder){ .fd = -1 };
}

void recorder_lost(recorder *r, const int *fds, int count) {
    for (int i = 0; i < count; i++)
        if (fds[i] > 0) levels_switch_back(fds[i]);
    forget(r);
}

// Returns false if it is not to be waited for any longer.
static bool wait_for_answer(const recorder *r) {
    enum { LOOK_FOR_SIGNALS_MS = 50 };
    struct pollfd in = { .fd = r->fd, .events = POLLIN };
    while (poll(&in, 1, LOOK_FOR_SIGNALS_MS) <= 0)
        if (signals_end_waits()) return false;
    return true;
}

void recorder_finish(recorder *r, const char *path, char *text, size_t text_size) {
    recorder_message m = { 0 };
    snprintf(m.path, sizeof m.path, "%s", path);
    bool ok = send(r->fd, &m, sizeof m, MSG_NOSIGNAL) >= 0 && wait_for_answer(r);
    if (!ok) kill(r->pid, SIGKILL);
    ssize_t n = ok ? recv(r->fd, text, text_size - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (n <= 0)
        snprintf(text, text_size, "the trace is not written: %s",
                 ok ? "its process has ended" : "a signal was received");
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) continue;
    forget(r);
}
