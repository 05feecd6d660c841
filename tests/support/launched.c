#include "launched.h"

#include "testing/testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const char *launched_path(void) {
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    assert_true(n > 0);
    path[n] = '\0';
    char *name = strrchr(path, '/') + 1;
    memcpy(name, "gradwire", sizeof "gradwire");
    return path;
}

static int open_pidfd(pid_t pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(fd >= 0);
    return fd;
}

static launched start(const char *path, const char *const arguments[], int in_fd, int out_fd,
                      int err_fd) {
    int in[2] = { in_fd, -1 }, out[2] = { -1, out_fd }, err[2] = { -1, err_fd };
    if (in_fd < 0) assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    if (out_fd < 0) assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    if (err_fd < 0) assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    setenv("XDG_STATE_HOME", GW_BUILD_DIR "/state", 0);  // of launchers whose ranks fail
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execv(path, (char *const *)arguments);
        _exit(126);
    }
    if (in_fd < 0) close(in[0]);
    if (out_fd < 0) close(out[1]);
    if (err_fd < 0) close(err[1]);
    return (launched){ pid, open_pidfd(pid), in[1], out[0], err[0] };
}

launched launch_with(const char *const arguments[], int in_fd, int out_fd, int err_fd) {
    return start(launched_path(), arguments, in_fd, out_fd, err_fd);
}

launched launch(const char *const arguments[]) {
    return launch_with(arguments, -1, -1, -1);
}

launched launch_command(const char *format, ...) {
    char command[4096];
    int at = snprintf(command, sizeof command, "cd %s/bin && ", GW_BUILD_DIR);
    va_list args;
    va_start(args, format);
    int size = vsnprintf(command + at, sizeof command - (size_t)at, format, args);
    va_end(args);
    assert_in_range(size, 1, (int)sizeof command - at - 1);
    testing_note("%s", command + at);
    return start("/bin/sh", (const char *const[]){ "sh", "-c", command, NULL }, -1, -1, -1);
}

bool has_program(const char *name) {
    char command[300];
    snprintf(command, sizeof command, "command -v '%.200s' >/dev/null", name);
    return system(command) == 0;
}

const char *read_line(int fd, const char *beginning) {
    static char line[128 * 1024];
    size_t size = 0, wanted = strlen(beginning);
    for (;;) {
        ssize_t n = read(fd, line + size, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n != 1) fail_msg("the output ended before a line with \"%s\"", beginning);
        assert_true(size < sizeof line - 1);
        if (line[size++] != '\n') continue;
        line[size - 1] = '\0';
        if (strncmp(line, beginning, wanted) == 0) return line + wanted;
        size = 0;
    }
}

void send_line(launched *l, const char *line) {
    size_t size = strlen(line);
    assert_int_equal(write(l->in_fd, line, size), size);
    assert_int_equal(write(l->in_fd, "\n", 1), 1);
}

void close_input(launched *l) {
    if (l->in_fd >= 0) close(l->in_fd);
    l->in_fd = -1;
}

// The bytes read from a stream so far, with a NUL behind them.
typedef struct buffer {
    char *data;
    size_t size, capacity;
} buffer;

// Appends available bytes; false at the end.
static bool read_some(int fd, buffer *b) {
    enum { CHUNK = 64 * 1024 };
    if (b->capacity - b->size <= CHUNK) {
        b->capacity = 2 * (b->size + CHUNK + 1);
        b->data = realloc(b->data, b->capacity);
        assert_non_null(b->data);
    }
    ssize_t n = read(fd, b->data + b->size, CHUNK);
    if (n > 0) b->size += (size_t)n;
    b->data[b->size] = '\0';
    return n > 0 || (n < 0 && errno == EINTR);
}

result finish(launched l) {
    buffer from[2] = { { 0 } };
    close_input(&l);
    struct pollfd fds[2] = { { .fd = l.out_fd, .events = POLLIN },
                             { .fd = l.err_fd, .events = POLLIN } };
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 2, -1) < 0) continue;
        for (int i = 0; i < 2; i++)
            if (fds[i].fd >= 0 && fds[i].revents && !read_some(fds[i].fd, &from[i])) fds[i].fd = -1;
    }
    int status;
    while (waitpid(l.pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    if (l.out_fd >= 0) close(l.out_fd);
    if (l.err_fd >= 0) close(l.err_fd);
    close(l.pid_fd);
    return (result){
        .code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
        .out = from[0].data,
        .out_size = from[0].size,
        .err = from[1].data,
        .err_size = from[1].size,
    };
}

void forget(result r) {
    free(r.out);
    free(r.err);
}

int open_process(const char *number) {
    return open_pidfd((pid_t)strtol(number, NULL, 10));
}

bool has_ended(int process_fd) {
    struct pollfd ended = { .fd = process_fd, .events = POLLIN };
    return poll(&ended, 1, 0) == 1;
}

void wait_for_end(int process_fd) {
    struct pollfd ended = { .fd = process_fd, .events = POLLIN };
    while (poll(&ended, 1, -1) != 1) continue;
    close(process_fd);
}

path make_folder(void) {
    path p = { "/tmp/gradwire-run-XXXXXX" };
    assert_non_null(mkdtemp(p.text));
    return p;
}

path in_folder(path folder, const char *name) {
    path p;
    int n = snprintf(p.text, sizeof p.text, "%.200s/%s", folder.text, name);
    assert_in_range(n, 1, sizeof p.text - 1);
    return p;
}

void await_in_file(const char *file, const char *text) {
    static char found[64 * 1024];
    for (size_t size = 0; !memmem(found, size, text, strlen(text)); sched_yield()) {
        FILE *f = fopen(file, "re");
        size = f ? fread(found, 1, sizeof found, f) : 0;
        if (f) fclose(f);
    }
}

path make_key(path folder) {
    path key = in_folder(folder, "job.key");
    result r = finish(launch_command("umask 077; ./gradwire key > %s", key.text));
    assert_int_equal(r.code, 0);
    forget(r);
    return key;
}

void remove_folder(path folder) {
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder.text);
    assert_int_equal(system(command), 0);
}

// A process that the launcher has made of itself; 0: there is none.
static pid_t search_child(pid_t launcher, const char *wanted) {
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    pid_t found = 0;
    for (struct dirent *e; !found && (e = readdir(processes));) {
        char path[300], name[32] = "";
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        if (fscanf(f, "%*d (%31[^)]) %*c %d", name, &parent) == 2 && parent == launcher &&
            strcmp(name, wanted) == 0)
            found = (pid_t)strtol(e->d_name, NULL, 10);
        fclose(f);
    }
    closedir(processes);
    return found;
}

pid_t find_child(pid_t launcher, const char *name) {
    pid_t child;
    do child = search_child(launcher, name);
    while (!child);
    return child;
}

pid_t find_link(pid_t launcher) {
    return find_child(launcher, "gradwire-link");
}

int count_in(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) count++;
    return count;
}

path make_fifo(path folder, const char *name) {
    path fifo = in_folder(folder, name);
    assert_int_equal(mkfifo(fifo.text, 0600), 0);
    return fifo;
}

void write_fifo(path fifo) {
    int fd = open(fifo.text, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "go\n", 3), 3);
    close(fd);
}
