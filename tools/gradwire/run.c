// gradwire run: opens a job, starts its ranks, and turns until it is over.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "command.h"
#include "job.h"
#include "news.h"
#include "port.h"
#include "start.h"
#include "watch.h"

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
    j->say = j->to[1];
    return true;
}

static bool open_memory(job *j) {
    size_t count = (size_t)j->options.rank_count;
    j->ranks = calloc(count, sizeof *j->ranks);
    j->groups = calloc(count, sizeof *j->groups);
    j->polls = calloc(count * OUTPUTS + OUTPUTS + INPUT_POLL_COUNT + 2, sizeof *j->polls);
    // Never touched where lines are short, and so never there.
    j->lines = j->passes_through ? NULL : malloc(count * OUTPUTS * LINE_MAX_BYTES);
    if (!j->ranks || !j->groups || !j->polls || (!j->passes_through && !j->lines)) return false;
    for (size_t i = 0; i < count; i++) {
        j->ranks[i].last.total = &j->line_count;
        for (int k = 0; k < OUTPUTS; k++)
            j->ranks[i].outputs[k] = (output){ .fd = -1, .to = j->to[k] };
    }
    return true;
}

static bool open_port(job *j) {
    j->port = j->options.master_port;
    if (!j->port) j->port = port_reserve(&j->port_fd);
    return j->port > 0;
}

static void close_job(job *j) {
    guard_close(&j->guard);
    input_close(&j->input);
    if (j->port_fd >= 0) close(j->port_fd);
    if (j->news_fd >= 0) close(j->news_fd);
    if (j->signals.fd >= 0) signals_close(&j->signals);
    for (int i = 0; j->ranks && i < j->options.rank_count; i++) {
        for (int k = 0; k < OUTPUTS; k++) output_finish(&j->ranks[i].outputs[k]);
    }
    for (int i = 0; i < OUTPUTS; i++) {
        if (j->sinks[i].data) sink_flush(&j->sinks[i]);
        sink_close(&j->sinks[i]);
    }
    free(j->ranks);
    free(j->groups);
    free(j->members);
    free(j->polls);
    free(j->lines);
}

// NULL, or what failed, with errno.
static const char *open_job(job *j) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!open_sinks(j) || !open_memory(j)) return "memory";
    if (!make_id(j->id)) return "getrandom";
    if (!open_port(j)) return "no free port";
    if (!signals_open(&j->signals)) return "signalfd";
    j->news_fd = news_open(j->id);
    if (!guard_open(&j->guard, j->id)) return "fork";
    policy_init(&j->policy, j->options.grace_ms);
    return NULL;
}

int run_command(int argc, char **argv) {
    int code;
    job j = { .port_fd = -1,
              .news_fd = -1,
              .signals.fd = -1,
              .input = { .terminal_fd = -1, .pipe_fd = -1 } };
    if (!run_options_parse(argc, argv, &j.options, &code)) return code;
    // What one rank shows on a terminal needs no prefix to tell it from another's.
    j.passes_through = j.options.no_prefix || (j.options.rank_count == 1 && isatty(STDOUT_FILENO));

    const char *failed = open_job(&j);
    if (failed) {
        fprintf(stderr, "gradwire: cannot start: %s: %s\n", failed, strerror(errno));
        close_job(&j);
        return EXIT_OWN_FAILURE;
    }
    start_result result = start_ranks(&j, &code);
    if (result == START_REFUSED) watch_start_failed(&j, code);
    code = watch(&j);
    close_job(&j);
    return code;
}
