#include "system/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int input_open(input *in, int terminal_fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    *in = (input){ .terminal_fd = terminal_fd, .pipe_fd = ends[1] };
    return ends[0];
}

void input_close(input *in) {
    if (in->pipe_fd >= 0) close(in->pipe_fd);
    *in = (input){ .terminal_fd = -1, .pipe_fd = -1 };
}

static bool is_in_foreground(const input *in) {
    return tcgetpgrp(in->terminal_fd) == getpgrp();
}

// poll() skips an entry without a descriptor. The pipe is polled even when there is nothing to write, since the kernel
// reports when its reader has closed it.
void input_poll(const input *in, struct pollfd out[INPUT_POLL_COUNT]) {
    bool has_data = in->begin < in->end;
    bool may_read = in->terminal_fd >= 0 && !has_data && is_in_foreground(in);
    out[0] = (struct pollfd){ .fd = may_read ? in->terminal_fd : -1, .events = POLLIN };
    out[1] = (struct pollfd){ .fd = in->pipe_fd, .events = has_data ? POLLOUT : 0 };
}

static void read_terminal(input *in) {
    ssize_t n = read(in->terminal_fd, in->data, sizeof in->data);
    if (n > 0) {
        in->begin = 0;
        in->end = (size_t)n;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR && is_in_foreground(in))) {
        input_close(in);
    }
}

static void write_pipe(input *in) {
    ssize_t n = write(in->pipe_fd, in->data + in->begin, in->end - in->begin);
    if (n > 0) {
        in->begin += (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        input_close(in);
    }
}

void input_relay(input *in, const struct pollfd ready[INPUT_POLL_COUNT]) {
    if (ready[0].revents) read_terminal(in);
    if (in->pipe_fd >= 0 && in->begin < in->end) write_pipe(in);
    if (in->pipe_fd >= 0 && (ready[1].revents & POLLERR)) input_close(in);
}
