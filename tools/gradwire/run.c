// gradwire run: opens a job, starts its ranks, and turns until it is over.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "options/command.h"

#include "base/system_error.h"
#include "launch/dry_run.h"
#include "job/job.h"
#include "job/slots.h"
#include "recorder/recorder_main.h"
#include "watch/health.h"
#include "watch/other_hosts.h"
#include "system/port.h"
#include "launch/start.h"
#include "watch/watch.h"

static bool make_id(char out[JOB_ID_SIZE]) {
    unsigned char bits[(JOB_ID_SIZE - 1) / 2];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits) return false;
    for (size_t i = 0; i < sizeof bits; i++) snprintf(out + 2 * i, 3, "%02x", bits[i]);
    return true;
}

static bool open_sinks(job *j) {
    for (int i = 0; i < OUTPUTS; i++) {
        if (!sink_open(&j->sinks[i], STDOUT_FILENO + i)) return false;
        j->to[i] = &j->sinks[i];
    }
    // Through one queue, lines stay whole and nearly in order.
    if (sink_is_same_file(STDOUT_FILENO, STDERR_FILENO)) j->to[1] = &j->sinks[0];
    j->messages = j->to[1];
    return true;
}

static bool open_memory(job *j) {
    size_t count = (size_t)j->options.rank_count;
    j->ranks = calloc(count, sizeof *j->ranks);
    j->groups = calloc(count, sizeof *j->groups);
    j->polls = calloc(count * OUTPUTS + OUTPUTS + INPUT_POLL_COUNT + 3, sizeof *j->polls);
    // Never touched where lines are short, and so never there.
    j->budget =
        (budget){ .max = j->options.max_restarts,
                  .window_ms = j->options.restart_window_ms,
                  .backoff_ms = j->options.backoff_ms,
                  .restarts_ms = calloc((size_t)j->options.max_restarts + 1, sizeof(int64_t)),
                  .slots = calloc(count, sizeof *j->budget.slots) };
    if (!j->budget.restarts_ms || !j->budget.slots) return false;
    j->lines = j->passes_through ? NULL : malloc(count * OUTPUTS * LINE_MAX_BYTES);
    if (!j->ranks || !j->groups || !j->polls || (!j->passes_through && !j->lines)) return false;
    for (size_t i = 0; i < count; i++) {
        j->ranks[i].last.total = &j->line_count;
        rank *r = &j->ranks[i];
        r->awaits_start = true;
        r->log.fd = -1;
        for (int k = 0; k < OUTPUTS; k++) {
            r->logs[k].fd = -1;
            r->outputs[k] = (output){
                .fd = -1, .to = j->to[k], .last = &r->last, .logs = { &r->logs[k], &r->log }
            };
            if (j->lines)
                r->outputs[k].line = j->lines + (i * OUTPUTS + (size_t)k) * LINE_MAX_BYTES;
        }
    }
    return true;
}

static bool open_port(job *j) {
    const run_options *o = &j->options;
    j->port = o->master_port;
    if (o->node_rank > 0)
        return true;  // host 0 sends its own; of a dynamic job, any host may be it
    if (!j->port)
        j->port = port_reserve(o->rdzv_endpoint[0] ? o->rdzv_host : "127.0.0.1", &j->port_fd);
    return j->port > 0;
}

// "t.pftrace"; of host 2 "t.host2.pftrace".
static void write_trace(job *j) {
    const char *file = j->options.trace.file, *name = strrchr(file, '/');
    const char *end = strrchr(name ? name : file, '.');
    char path[TRACE_FILE_MAX], host[24] = "", text[RECORDER_TEXT_SIZE];
    int size = (int)(end ? end - file : (ptrdiff_t)strlen(file));
    if (run_has_hosts(&j->options)) snprintf(host, sizeof host, ".host%d", j->options.node_rank);
    snprintf(path, sizeof path, "%.*s%s%s", size, file, host, file + size);
    recorder_finish(&j->recorder, path, text, sizeof text);
    sink_print(j->messages, "%s", text);
}

static void close_job(job *j) {
    nodes_close(&j->nodes);
    health_close(j);
    monitor_process_close(&j->monitor);
    for (int i = 0; i < 2; i++)
        if (j->looks[i] >= 0) close(j->looks[i]);
    if (j->recorder.pid) write_trace(j);
    guard_close(&j->guard);
    input_close(&j->input);
    if (j->port_fd >= 0) close(j->port_fd);
    channels_close(&j->channels);
    if (j->signals.fd >= 0) signals_close(&j->signals);
    for (int i = 0; j->ranks && i < j->options.rank_count; i++) {
        slot_close_output(&j->ranks[i]);
        slot_close_flight(&j->ranks[i]);
    }
    log_folder_close(&j->logs);
    for (int i = 0; i < OUTPUTS; i++) {
        if (j->sinks[i].data) sink_flush(&j->sinks[i]);
        sink_close(&j->sinks[i]);
    }
    free(j->budget.restarts_ms);
    free(j->budget.slots);
    free(j->ranks);
    free(j->groups);
    free(j->members);
    free(j->polls);
    free(j->lines);
}

// All hosts use the name of host 0, which differs from all marks: a guard kills the processes with the mark of its host,
// and two hosts may be on one machine.
static const char *job_id(const job *j) {
    const char *given = getenv("GW_JOB_ID");
    return given && *given && strlen(given) < LINK_JOB_ID_SIZE ? given : j->name;
}

// Between the link and the monitor.
static bool open_looks(job *j) {
    if (!run_has_hosts(&j->options) || !j->options.monitor.is_on) return true;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, j->looks) == 0;
}

// NULL, or what failed, with errno.
static const char *open_job(job *j) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!open_sinks(j) || !open_memory(j)) return "memory";
    if (!make_id(j->id) || !make_id(j->name)) return "getrandom";
    if (j->options.log_dir && !log_folder_open(&j->logs, j->options.log_dir, j->name))
        return "--log-dir";
    if (!open_port(j)) return "no free port";
    if (!signals_open(&j->signals)) return "signalfd";
    channels_open(&j->channels, j->id);
    if (!guard_open(&j->guard, j->id)) return "fork";
    if (!open_looks(j)) return "socketpair";
    if (j->options.trace.file[0] && !recorder_open(&j->recorder, &j->options.trace))
        return "--trace";
    policy_init(&j->policy, j->options.grace_ms);
    j->judge_ms = INT64_MAX;
    return NULL;
}

// The links meet only once this host is healthy. Returns false with |out_code|.
static bool open_link(job *j, int *out_code) {
    if (!run_has_hosts(&j->options)) return true;
    const nodes_options o = { .run = &j->options,
                              .port = j->port,
                              .job_id = job_id(j),
                              .mark = j->id,
                              .looks_fd = j->looks[0] };
    if (nodes_open(&j->nodes, &o)) return true;
    fprintf(stderr, "gradwire: cannot start: fork: %s\n", system_thread_error_text(errno).text);
    *out_code = EXIT_OWN_FAILURE;
    return false;
}

// The page is there before the ranks are. Returns false after an error was printed.
static bool open_monitor(job *j) {
    char why[LISTEN_WHY_SIZE], address[128];
    if (!j->options.monitor.is_on) return true;
    j->monitor = (monitor_process){ .mark = j->id,
                                    .expected = j->options.rank_count,
                                    .looks_fd = j->looks[1] };
    if (!monitor_process_open(&j->monitor, &j->options.monitor, why, sizeof why)) {
        fprintf(stderr, "gradwire: --monitor: %s\n", why);
        return false;
    }
    monitor_site_address(&j->monitor.site, address, sizeof address);
    sink_print(j->messages, "%s", address);
    return true;
}

int run_command(int argc, char **argv) {
    int code;
    job j = { .port_fd = -1,
              .channels = { .poll_fd = -1, .listen_fd = -1 },
              .signals.fd = -1,
              .nodes.fd = -1,
              .looks = { -1, -1 },
              .monitor = { .lifeline_fd = -1, .site = { .page_fd = -1, .metrics_fd = -1 } },
              .recorder.fd = -1,
              .logs.events.fd = -1,
              .input = { .terminal_fd = -1, .pipe_fd = -1 } };
    if (!run_options_parse(argc, argv, &j.options, &code)) return code;
    if (j.options.dry_run) {
        dry_run(&j.options);
        return 0;
    }
    // The output of a single rank on a terminal needs no prefix.
    j.passes_through = j.options.no_prefix || (run_world_max(&j.options) == 1 &&
                                               isatty(STDOUT_FILENO) && !j.options.log_dir);

    const char *failed = open_job(&j);
    if (failed) {
        fprintf(stderr, "gradwire: cannot start: %s: %s\n", failed,
                system_thread_error_text(errno).text);
        close_job(&j);
        return EXIT_OWN_FAILURE;
    }
    if (!open_monitor(&j)) {
        close_job(&j);
        return EXIT_OWN_FAILURE;
    }
    if (health_await(&j, &code) && open_link(&j, &code) && other_hosts_meet(&j, &code)) {
        start_result result = start_ranks(&j, 0, &code);
        if (result == START_REFUSED) watch_start_failed(&j, code);
        code = watch(&j);
    }
    close_job(&j);
    return code;
}
