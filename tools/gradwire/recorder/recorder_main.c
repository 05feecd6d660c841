#include "recorder/recorder_main.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "observe/capture.h"
#include "system/clock.h"
#include "system/pass_fd.h"
#include "timeline/file.h"
#include "timeline/prepare.h"

enum { SOCKET_FD = 3, NULL_FDS = 3 };

typedef struct recording {
    const trace_option *options;
    capture *capture;
    int left_out;              // memories that could not be added
    char why[IMAGE_WHY_SIZE];  // of the first of them
    int64_t until_ms;          // 0: no worker has opened its memory yet
    bool is_over;
} recording;

// No descriptor of the launcher is kept: a process that reads its output until the end waits for the launcher only.
static void detach(int fd) {
    setsid();
    prctl(PR_SET_NAME, "gradwire-trace");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (dup2(fd, SOCKET_FD) < 0) _exit(1);
    fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC);
    syscall(SYS_close_range, SOCKET_FD + 1, ~0U, 0);
    for (int i = 0; i < NULL_FDS; i++) close(i);
    for (int i = 0; i < NULL_FDS; i++)
        if (open("/dev/null", O_RDWR) < 0) _exit(1);
}

// ---- Messages -----------------------------------------------------------------------------------

// A lock is of a description of an open file: the launcher and the rank have another one.
static void add(recording *r, int fd) {
    char path[64], why[IMAGE_WHY_SIZE] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own_fd = open(path, O_RDWR | O_CLOEXEC);
    if (own_fd < 0) snprintf(why, sizeof why, "it cannot be opened: %s", strerror(errno));
    close(fd);
    if (own_fd >= 0 && capture_add(r->capture, own_fd, why, sizeof why)) return;
    if (!r->left_out++) memcpy(r->why, why, sizeof r->why);
}

// Returns 1 after a memory, 0 at the end: |out| has the path of the trace; -1 without a message.
static int take_message(recording *r, recorder_message *out) {
    int fd;
    ssize_t n = receive_fd(SOCKET_FD, out, sizeof *out, &fd);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? -1 : 0;
    if (n == 0) {  // the launcher was killed
        memcpy(out->path, r->options->file, sizeof out->path);
        return 0;
    }
    if (fd < 0) return 0;
    add(r, fd);
    return 1;
}

// ---- Recording ----------------------------------------------------------------------------------

// The time of a trace begins with the first worker.
static int read_records(recording *r) {
    int64_t now_ms = clock_now_ms(), for_ms = r->options->seconds_ms;
    int wait_ms = capture_read(r->capture);
    if (r->is_over) return capture_is_pending(r->capture) ? wait_ms : -1;
    if (for_ms && !r->until_ms && capture_count(r->capture)) r->until_ms = now_ms + for_ms;
    if (r->until_ms && now_ms >= r->until_ms) {
        capture_end(r->capture);
        r->is_over = true;
        return 0;
    }
    return wait_ms;
}

static void record_until_the_end(recording *r, recorder_message *out) {
    for (;;) {
        int kind;
        while ((kind = take_message(r, out)) > 0) continue;
        if (kind == 0) return;
        struct pollfd in = { .fd = SOCKET_FD, .events = POLLIN };
        poll(&in, 1, read_records(r));
    }
}

// ---- Writing ------------------------------------------------------------------------------------

static void describe(const recording *r, const image *images, int count, const char *path,
                     char out[RECORDER_TEXT_SIZE]) {
    uint64_t overtaken = 0, left_out = 0;
    size_t used =
        (size_t)snprintf(out, RECORDER_TEXT_SIZE, "the trace of %d worker process%s is in %s",
                         count, count == 1 ? "" : "es", path);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++) {
            overtaken += images[i].threads[k].overtaken;
            left_out += images[i].threads[k].left_out;
        }
    if (overtaken)
        used += (size_t)snprintf(out + used, RECORDER_TEXT_SIZE - used,
                                 "; %" PRIu64 " records were overwritten before they were read",
                                 overtaken);
    if (left_out)
        used += (size_t)snprintf(out + used, RECORDER_TEXT_SIZE - used,
                                 "; %" PRIu64 " records are left out, behind the first %d",
                                 left_out, CAPTURE_RECORDS_MAX);
    if (capture_refused(r->capture))
        used += (size_t)snprintf(out + used, RECORDER_TEXT_SIZE - used,
                                 "; the memory of %d processes could not be read: %s",
                                 capture_refused(r->capture), capture_why(r->capture));
    if (r->left_out && used < RECORDER_TEXT_SIZE)
        snprintf(out + used, RECORDER_TEXT_SIZE - used, "; %d processes are not in it: %s",
                 r->left_out, r->why);
}

static void write_images(const recording *r, image *images, int count, const char *path,
                         char out[RECORDER_TEXT_SIZE]) {
    trace_file f;
    bool ok = trace_file_open(&f, path, false);
    if (ok) {
        clocks c = { 0 };
        errno = ENOMEM;
        ok = (f.format == TRACE_RECORDS_THEMSELVES || prepare_images(images, count, 0, &c)) &&
             trace_file_write(&f, images, count, &c);
        int error = errno;
        clocks_fini(&c);
        trace_file_close(&f);
        errno = error;
    }
    if (ok)
        describe(r, images, count, path, out);
    else
        snprintf(out, RECORDER_TEXT_SIZE, "the trace is not written: %s: %s", path,
                 strerror(errno));
}

static void write_trace(const recording *r, const char *path, char out[RECORDER_TEXT_SIZE]) {
    image *images = NULL;
    int count = 0;
    if (!capture_finish(r->capture, &images, &count))
        snprintf(out, RECORDER_TEXT_SIZE, "the trace is not written: no memory");
    else if (!count && r->left_out)
        snprintf(out, RECORDER_TEXT_SIZE, "there is no trace: %d processes cannot be traced: %s",
                 r->left_out, r->why);
    else if (!count && capture_refused(r->capture))
        snprintf(out, RECORDER_TEXT_SIZE,
                 "there is no trace: the memory of %d processes could not be read: %s",
                 capture_refused(r->capture), capture_why(r->capture));
    else if (!count)
        snprintf(out, RECORDER_TEXT_SIZE, "there is no trace: no rank was a worker that records");
    else
        write_images(r, images, count, path, out);
    image_free_all(images, count);
}

_Noreturn void recorder_main(int fd, const trace_option *o) {
    char text[RECORDER_TEXT_SIZE] = "";
    recorder_message m = { 0 };
    detach(fd);
    recording r = { .options = o,
                    .capture = capture_open(&(capture_options){ .levels = o->levels,
                                                                .from_start = true,
                                                                .first_step = o->first_step,
                                                                .last_step = o->last_step }) };
    if (!r.capture) _exit(1);
    record_until_the_end(&r, &m);
    m.path[sizeof m.path - 1] = '\0';
    write_trace(&r, m.path, text);
    capture_close(r.capture);
    send(SOCKET_FD, text, strlen(text), MSG_NOSIGNAL);
    _exit(0);
}
