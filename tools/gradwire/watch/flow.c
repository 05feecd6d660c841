#include "watch/flow.h"

#include <string.h>

#include "job/report.h"

// The order of the descriptors: the launcher's own two, then those of the ranks.
enum { POLL_SINKS = 0, POLL_OUTPUTS = OUTPUTS };

static int output_count(const job *j) {
    return j->options.rank_count * OUTPUTS;
}

static output *output_at(const job *j, int i) {
    return &j->ranks[i / OUTPUTS].outputs[i % OUTPUTS];
}

int flow_poll_count(const job *j) {
    return POLL_OUTPUTS + output_count(j);
}

// A descriptor that is not polled now is -1, which poll() skips.
void flow_poll(const job *j, struct pollfd *out) {
    for (int i = 0; i < OUTPUTS; i++) {
        const sink *s = &j->sinks[i];
        int fd = sink_is_empty(s) ? -1 : s->fd;
        out[POLL_SINKS + i] = (struct pollfd){ .fd = fd, .events = POLLOUT };
    }
    for (int i = 0; i < output_count(j); i++) {
        const output *o = output_at(j, i);
        int fd = sink_has_room(o->to) ? o->fd : -1;
        out[POLL_OUTPUTS + i] = (struct pollfd){ .fd = fd, .events = POLLIN };
    }
}

// Reads each output in turn, one read at a time, so that endless output does not delay the others.
void flow_read(job *j, const struct pollfd *ready) {
    int count = output_count(j);
    for (int n = 0; n < count; n++) {
        int i = (j->first_output + n) % count;
        output *o = output_at(j, i);
        if (o->fd < 0 || !ready[POLL_OUTPUTS + i].revents) continue;
        if (!sink_has_room(o->to)) sink_flush(o->to);
        if (sink_has_room(o->to)) output_read(o);
    }
    j->first_output = (j->first_output + 1) % count;
}

// If the reader has closed our output, ranks that write to it get a broken pipe, as if they had written directly.
static void break_outputs(job *j, const sink *s) {
    for (int i = 0; i < output_count(j); i++) {
        output *o = output_at(j, i);
        if (o->to == s) output_finish(o);
    }
}

void flow_write(job *j) {
    for (int i = 0; i < OUTPUTS; i++) {
        sink *s = &j->sinks[i];
        int error_before = s->error;
        sink_flush(s);
        if (s->is_broken) break_outputs(j, s);
        if (s->error && !error_before && !s->is_broken) report_lost_output(j, s);
    }
}

bool flow_is_done(const job *j) {
    for (int i = 0; i < OUTPUTS; i++) {
        if (!sink_is_empty(&j->sinks[i])) return false;
    }
    for (int i = 0; i < output_count(j); i++) {
        if (output_at(j, i)->fd >= 0) return false;
    }
    return true;
}

// When no process of the job is left, an empty pipe stays empty, even if an unrelated process has its other end open.
void flow_finish(job *j) {
    for (int i = 0; i < output_count(j); i++) {
        output *o = output_at(j, i);
        if (o->fd < 0) continue;
        output_drain(o);
        if (sink_has_room(o->to)) output_finish(o);
    }
}
