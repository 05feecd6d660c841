#include "launch/start.h"

#include "base/system_error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "options/binding.h"
#include "options/command.h"
#include "launch/environment.h"

// The pipes on which ranks wait to execute the program, and report a failure to do so.
typedef struct gate {
    int go[2];      // a byte for each rank; its end: the launcher has given up
    int result[2];  // a failure; its end: all of them have become the program
} gate;

enum { FIRST_GATE, OTHERS_GATE, GATES };  // rank 0 alone, and the others

typedef struct failure {
    int rank;
    int error;
    bool in_exec;  // else before
} failure;

typedef struct start {
    job *job;
    gate gates[GATES];
    struct rlimit old_file_limit;
    pid_t launcher;
    int input_fd;  // of rank 0
} start;

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static int gate_of(int index) {
    return index == 0 ? FIRST_GATE : OTHERS_GATE;
}

// ---- In the child -------------------------------------------------------------------------------

// Each rank opens the key for itself, since it reads it from where the last one has stopped
// otherwise. Its secret is in no memory of the launcher's.
static bool open_key(const job *j, int *out_fd) {
    *out_fd = j->options.key ? open(j->options.key, O_RDONLY) : -1;
    return !j->options.key || *out_fd >= 0;
}

static bool set_environment(const job *j, int index) {
    variables v;
    int key_fd;
    if (!open_key(j, &key_fd)) return false;
    variables_make(&(variables_options){ .run = &j->options,
                                         .index = index,
                                         .mark = j->id,
                                         .job_id = j->nodes.job_id,
                                         .port = j->port,
                                         .key_fd = key_fd },
                   &v);
    for (int i = 0; i < v.count; i++)
        if (setenv(v.list[i].name, v.list[i].value, 1) != 0) return false;
    // The rank gets the key itself, and needs not know where it lies.
    return !j->options.key || unsetenv("GW_KEY_FILE") == 0;
}

static bool set_streams(const start *s, int index, const int write_fds[OUTPUTS]) {
    bool is_first = run_rank(&s->job->options, index) == 0;
    int input_fd = is_first ? s->input_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input_fd < 0 || dup2(input_fd, STDIN_FILENO) < 0) return false;
    if (s->job->passes_through) return true;
    return dup2(write_fds[0], STDOUT_FILENO) >= 0 && dup2(write_fds[1], STDERR_FILENO) >= 0;
}

static void wait_at(const gate *g) {
    char go;
    ssize_t n;
    do n = read(g->go[0], &go, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1) _exit(0);
}

_Noreturn static void become_rank(const start *s, int index, const int write_fds[OUTPUTS]) {
    const job *j = s->job;
    const gate *g = &s->gates[gate_of(index)], *other = &s->gates[!gate_of(index)];
    close(g->go[1]);
    close(g->result[0]);
    for (int i = 0; i < 2; i++) {
        close(other->go[i]);
        close(other->result[i]);
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != s->launcher) _exit(1);  // it ended before the line above
    signals_restore(&j->signals);

    failure f = { .rank = index };
    bool is_bound = !j->options.bind || binding_set(index, j->options.rank_count);
    if (is_bound && set_environment(j, index) && set_streams(s, index, write_fds) &&
        setrlimit(RLIMIT_NOFILE, &s->old_file_limit) == 0) {
        wait_at(g);
        execvp(j->options.program[0], j->options.program);
        f.in_exec = true;
    }
    f.error = errno;
    ssize_t n = write(g->result[1], &f, sizeof f);
    _exit(n == sizeof f ? 0 : 1);
}

// ---- In the launcher ----------------------------------------------------------------------------

// Two pipes, a log and a channel for each rank are more than the usual soft limit allows. Ranks get the old limit.
static void raise_file_limit(start *s) {
    getrlimit(RLIMIT_NOFILE, &s->old_file_limit);
    struct rlimit limit = s->old_file_limit;
    rlim_t wanted = (rlim_t)s->job->options.rank_count * (OUTPUTS + 2) + 64;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

__attribute__((format(printf, 4, 5))) static start_result
refuse_with(job *j, int *out_code, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(j->refusal, sizeof j->refusal, format, arguments);
    va_end(arguments);
    *out_code = code;
    return START_REFUSED;
}

static start_result refuse(job *j, int *out_code, const char *what, int error) {
    return refuse_with(j, out_code, EXIT_OWN_FAILURE, "cannot start %d ranks: %s: %s",
                       j->options.rank_count, what, system_thread_error_text(error).text);
}

static bool open_outputs(job *j, int index, int write_fds[OUTPUTS]) {
    rank *r = &j->ranks[index];
    const char *folder = j->options.log_dir;
    if (folder && !log_open(&r->log, folder, run_rank(&j->options, index))) return false;
    for (int i = 0; i < OUTPUTS && !j->passes_through; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return false;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        write_fds[i] = ends[1];
        char *line = j->lines + (size_t)(index * OUTPUTS + i) * LINE_MAX_BYTES;
        output_init(&r->outputs[i], ends[0], run_rank(&j->options, index), j->to[i], &r->last,
                    &r->log, line);
    }
    return true;
}

// NULL, or what failed, with errno.
static const char *fork_rank(start *s, int index) {
    job *j = s->job;
    rank *r = &j->ranks[index];
    int write_fds[OUTPUTS] = { -1, -1 };
    if (!open_outputs(j, index, write_fds)) {
        for (int i = 0; i < OUTPUTS; i++) close_fd(&write_fds[i]);
        return j->options.log_dir ? "a pipe or log" : "pipe";
    }
    pid_t pid = fork();
    if (pid == 0) become_rank(s, index, write_fds);
    int error = errno;
    for (int i = 0; i < OUTPUTS; i++) close_fd(&write_fds[i]);
    errno = error;
    if (pid < 0) return "fork";
    setpgid(pid, pid);  // the child calls it, too: either may run first
    r->pid = pid;
    r->is_running = true;
    j->running_count++;
    return NULL;
}

static start_result explain(job *j, const failure *f, int *out_code) {
    const char *program = j->options.program[0];
    if (!f->in_exec)
        return refuse_with(j, out_code, EXIT_OWN_FAILURE, "cannot prepare rank %d: %s",
                           run_rank(&j->options, f->rank), system_error_text(f->error).text);
    if (f->error == ENOENT && !strchr(program, '/'))
        return refuse_with(j, out_code, EXIT_NOT_FOUND,
                           "cannot run %s: there is no such program in PATH", program);
    if (f->error == ENOENT && access(program, F_OK) == 0)
        return refuse_with(j, out_code, EXIT_NOT_FOUND, "cannot run %s: its interpreter is missing",
                           program);
    return refuse_with(j, out_code, f->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE,
                       "cannot run %s: %s", program, strerror(f->error));
}

// Lets |count| ranks go and waits until each has become the program. That is quick, unless its file
// lies on a server that does not answer: so a signal ends the wait.
static start_result open_gate(start *s, gate *g, int count, int *out_code) {
    enum { LOOK_FOR_SIGNALS_MS = 50 };
    char go[RANK_COUNT_MAX] = { 0 };
    close_fd(&g->go[0]);
    close_fd(&g->result[1]);
    if (write(g->go[1], go, (size_t)count) != count)
        return refuse(s->job, out_code, "write", errno);
    struct pollfd result = { .fd = g->result[0], .events = POLLIN };
    while (poll(&result, 1, LOOK_FOR_SIGNALS_MS) <= 0) {
        nodes_send_heartbeat(&s->job->nodes);
        if (signals_end_waits()) return START_INTERRUPTED;
    }
    failure f;
    return read(g->result[0], &f, sizeof f) == sizeof f ? explain(s->job, &f, out_code) : START_OK;
}

static start_result start_all(start *s, int *out_code) {
    job *j = s->job;
    int count = j->options.rank_count;
    for (int i = 0; i < GATES; i++) {
        if (pipe2(s->gates[i].go, O_CLOEXEC) != 0 || pipe2(s->gates[i].result, O_CLOEXEC) != 0)
            return refuse(j, out_code, "pipe", errno);
    }
    if (j->options.node_rank == 0 && isatty(STDIN_FILENO))
        s->input_fd = input_open(&j->input, STDIN_FILENO);
    for (int i = 0; i < count; i++) {
        const char *failed = fork_rank(s, i);
        if (failed) return refuse(j, out_code, failed, errno);
    }
    start_result first = open_gate(s, &s->gates[FIRST_GATE], 1, out_code);
    return first != START_OK ? first : open_gate(s, &s->gates[OTHERS_GATE], count - 1, out_code);
}

start_result start_ranks(job *j, int *out_code) {
    start s = {
        .job = j,
        .gates = { { { -1, -1 }, { -1, -1 } }, { { -1, -1 }, { -1, -1 } } },
        .launcher = getpid(),
        .input_fd = STDIN_FILENO,
    };
    raise_file_limit(&s);
    start_result result = start_all(&s, out_code);
    for (int i = 0; i < GATES; i++) {
        for (int k = 0; k < 2; k++) {
            close_fd(&s.gates[i].go[k]);
            close_fd(&s.gates[i].result[k]);
        }
    }
    if (s.input_fd > STDERR_FILENO) close(s.input_fd);
    return result;
}
