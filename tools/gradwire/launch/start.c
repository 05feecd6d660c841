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
#include "job/report.h"
#include "job/slots.h"
#include "launch/environment.h"
#include "options/streams.h"
#include "system/clock.h"
#include "trace/region.h"

// The pipes on which ranks wait to execute the program, and report a failure to do so.
typedef struct gate {
    int go[2];      // a byte for each rank; its end: the launcher has given up
    int result[2];  // a failure; its end: all of them have become the program
} gate;

enum { FIRST_GATE, OTHERS_GATE, GATES };  // the first of the ranks alone, and the others

typedef struct failure {
    int rank;
    int error;
    bool in_exec;  // else before
} failure;

typedef struct start {
    job *job;
    gate gates[GATES];
    int first, count;  // of the ranks that start
    pid_t launcher;
    int input_fd;  // of rank 0
} start;

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static int gate_of(const start *s, int index) {
    return index == s->first ? FIRST_GATE : OTHERS_GATE;
}

// ---- In the child -------------------------------------------------------------------------------

// Each rank opens the key for itself, since it reads it from where the last one has stopped
// otherwise. Its secret is in no memory of the launcher's.
static bool open_key(const job *j, int *out_fd) {
    *out_fd = j->options.key ? open(j->options.key, O_RDONLY) : -1;
    return !j->options.key || *out_fd >= 0;
}

static bool set_variable(void *user, const char *name, const char *value) {
    (void)user;
    return setenv(name, value, 1) == 0;
}

static bool set_environment(const job *j, int index) {
    char error_file[LOG_PATH_BYTES];
    int key_fd, number = run_rank(&j->options, index), attempt = j->ranks[index].attempt;
    bool has_file = j->options.log_dir;
    if (!open_key(j, &key_fd)) return false;
    if (has_file && !log_folder_path(&j->logs, number, attempt, "error.json", error_file))
        return false;
    variables_options o = { .run = &j->options,
                            .index = index,
                            .attempt = attempt,
                            .creates = number == 0 && attempt == j->round,
                            .mark = j->id,
                            .run_id = j->name,
                            .job_id = j->nodes.job_id,
                            .error_file = has_file ? error_file : NULL,
                            .port = j->port,
                            .key_fd = key_fd,
                            .flight_fd = j->ranks[index].flight_fd };
    if (o.flight_fd > 0)
        fcntl(o.flight_fd, F_SETFD, 0);
    else
        unsetenv("GW_FLIGHT_FD");
    if (!variables_visit(&o, set_variable, NULL)) return false;
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
    const gate *g = &s->gates[gate_of(s, index)], *other = &s->gates[!gate_of(s, index)];
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
        setrlimit(RLIMIT_NOFILE, &j->file_limit) == 0) {
        wait_at(g);
        execvp(j->options.program[0], j->options.program);
        f.in_exec = true;
    }
    f.error = errno;
    ssize_t n = write(g->result[1], &f, sizeof f);
    _exit(n == sizeof f ? 0 : 1);
}

// ---- In the launcher ----------------------------------------------------------------------------

// Two pipes, three logs, a channel and its records for each rank are more than the usual soft limit allows. Ranks get the old limit.
static void raise_file_limit(job *j) {
    if (j->file_limit.rlim_max) return;
    getrlimit(RLIMIT_NOFILE, &j->file_limit);
    struct rlimit limit = j->file_limit;
    int logs = j->options.log_dir ? OUTPUTS + 1 : 0;
    rlim_t wanted = (rlim_t)j->options.rank_count * (rlim_t)(OUTPUTS + 2 + logs) + 64;
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

static start_result refuse(const start *s, int *out_code, const char *what, int error) {
    return refuse_with(s->job, out_code, EXIT_OWN_FAILURE, "cannot start %d rank%s: %s: %s",
                       s->count, s->count == 1 ? "" : "s", what,
                       system_thread_error_text(error).text);
}

static bool open_log(const job *j, rank *r, const char *file, log_file *out) {
    char path[LOG_PATH_BYTES];
    int number = run_rank(&j->options, (int)(r - j->ranks));
    return log_folder_path(&j->logs, number, r->attempt, file, path) && log_open(out, path);
}

static bool open_logs(const job *j, rank *r) {
    int number = run_rank(&j->options, (int)(r - j->ranks));
    int streams = run_streams_to_files(&j->options, number);
    if (!j->options.log_dir) return true;
    if (!log_folder_add_attempt(&j->logs, number, r->attempt)) return false;
    if ((streams & STREAM_OUT) && !open_log(j, r, "stdout.log", &r->logs[0])) return false;
    if ((streams & STREAM_ERR) && !open_log(j, r, "stderr.log", &r->logs[1])) return false;
    if (!streams) return true;
    return open_log(j, r, "output.log", &r->log) && log_folder_link(&j->logs, number, r->attempt);
}

static bool open_outputs(job *j, int index, int write_fds[OUTPUTS]) {
    rank *r = &j->ranks[index];
    int number = run_rank(&j->options, index);
    int shown = run_streams_to_output(&j->options, number);
    int kept = run_streams_to_files(&j->options, number);
    if (!open_logs(j, r)) {
        if (r->attempt == 0) return false;
        report_no_log(j, r, errno);
    }
    for (int i = 0; i < OUTPUTS && !j->passes_through; i++) {
        int ends[2];
        output *o = &r->outputs[i];
        if (pipe2(ends, O_CLOEXEC) != 0) return false;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        write_fds[i] = ends[1];
        output_init(o, number);
        o->fd = ends[0];
        o->logs[1] = kept & (1 << i) ? &r->log : NULL;
        o->is_hidden = !(shown & (1 << i));
    }
    return true;
}

static void trace_rank(const job *j, const rank *r) {
    recorder_prepare(&j->options.trace, r->flight_fd);
    if (recorder_add(&j->recorder, r->flight_fd)) return;
    sink_print(j->messages, "--trace: rank %d is not in the trace: %s",
               run_rank(&j->options, (int)(r - j->ranks)), strerror(errno));
}

// NULL, or what failed, with errno.
static const char *fork_rank(start *s, int index) {
    job *j = s->job;
    rank *r = &j->ranks[index];
    int write_fds[OUTPUTS] = { -1, -1 };
    slot_clear(j, r, r->next_attempt);
    if (!open_outputs(j, index, write_fds)) {
        for (int i = 0; i < OUTPUTS; i++) close_fd(&write_fds[i]);
        return j->options.log_dir ? "a pipe or log" : "pipe";
    }
    const char *wish = getenv("GW_FLIGHT");
    bool is_off = wish && strcmp(wish, "0") == 0;
    int flight_fd = is_off ? -1 : trace_memory_make();
    r->flight_fd = flight_fd > 0 ? flight_fd : 0;  // without it the worker makes its own
    if (r->flight_fd && j->recorder.pid) trace_rank(j, r);
    pid_t pid = fork();
    if (pid == 0) become_rank(s, index, write_fds);
    int error = errno;
    for (int i = 0; i < OUTPUTS; i++) close_fd(&write_fds[i]);
    errno = error;
    if (pid < 0) return "fork";
    setpgid(pid, pid);  // the child calls it, too: either may run first
    r->pid = pid;
    r->is_running = true;
    r->started_ms = clock_now_ms();
    j->running_count++;
    log_folder_event(&j->logs, "started", "s:i, s:i, s:i", "slot", run_rank(&j->options, index),
                     "attempt", r->attempt, "pid", (int)pid);
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
    if (write(g->go[1], go, (size_t)count) != count) return refuse(s, out_code, "write", errno);
    struct pollfd result = { .fd = g->result[0], .events = POLLIN };
    while (poll(&result, 1, LOOK_FOR_SIGNALS_MS) <= 0) {
        nodes_send_heartbeat(&s->job->nodes);
        if (signals_end_waits()) return START_INTERRUPTED;
    }
    failure f;
    return read(g->result[0], &f, sizeof f) == sizeof f ? explain(s->job, &f, out_code) : START_OK;
}

// A terminal's input, which the last attempt of rank 0 may have read, too.
static void open_input(start *s) {
    job *j = s->job;
    if (s->first != 0 || j->options.node_rank != 0 || !isatty(STDIN_FILENO)) return;
    input_close(&j->input);
    s->input_fd = input_open(&j->input, STDIN_FILENO);
}

static start_result start_all(start *s, int *out_code) {
    job *j = s->job;
    for (int i = 0; i < GATES; i++) {
        if (pipe2(s->gates[i].go, O_CLOEXEC) != 0 || pipe2(s->gates[i].result, O_CLOEXEC) != 0)
            return refuse(s, out_code, "pipe", errno);
    }
    open_input(s);
    for (int i = s->first; i < j->options.rank_count; i++) {
        const char *failed = j->ranks[i].starts ? fork_rank(s, i) : NULL;
        if (failed) return refuse(s, out_code, failed, errno);
    }
    start_result first = open_gate(s, &s->gates[FIRST_GATE], 1, out_code);
    return first != START_OK ? first : open_gate(s, &s->gates[OTHERS_GATE], s->count - 1, out_code);
}

static start choose(job *j, int64_t now_ms) {
    start s = {
        .job = j,
        .gates = { { { -1, -1 }, { -1, -1 } }, { { -1, -1 }, { -1, -1 } } },
        .launcher = getpid(),
        .input_fd = STDIN_FILENO,
    };
    for (int i = j->options.rank_count - 1; i >= 0; i--) {
        rank *r = &j->ranks[i];
        r->starts = slot_is_due(r, now_ms);
        if (!r->starts) continue;
        s.first = i;
        s.count++;
    }
    return s;
}

start_result start_ranks(job *j, int64_t now_ms, int *out_code) {
    start s = choose(j, now_ms);
    if (!s.count) return START_OK;
    raise_file_limit(j);
    start_result result = start_all(&s, out_code);
    for (int i = 0; i < j->options.rank_count; i++) {
        if (!j->ranks[i].starts) continue;
        j->ranks[i].starts = j->ranks[i].awaits_start = false;
    }
    for (int i = 0; i < GATES; i++) {
        for (int k = 0; k < 2; k++) {
            close_fd(&s.gates[i].go[k]);
            close_fd(&s.gates[i].result[k]);
        }
    }
    if (s.input_fd > STDERR_FILENO) close(s.input_fd);
    return result;
}
