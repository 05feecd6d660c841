// gw_trace_start and gw_trace_stop: the traces of all hosts of a job, as one.
#include <gradwire/trace.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/scope.h"
#include "base/system_error.h"
#include "runtime/tracer.h"
#include "runtime/tracing.h"
#include "trace/kinds.h"
#include <gradwire/membership.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS_MAX = 86400, LEVELS_BYTES = 64 };

// ---- Starting ------------------------------------------------------------------------------------

// A worker that cannot be traced is no error of the others.
static void report(const char *function, const gw_worker *w, const gw_scope *t) {
    log_line("%s: the host of %s (rank %d) is not in the trace: %s", function, w->name, w->rank,
             scope_error(t)->text);
}

// The first worker of each other host, as indices of |workers|. Returns their count.
static int find_hosts(gw_scope *s, const gw_worker *workers, int count, int *out) {
    gw_future **replies = gw_alloc(s, (size_t)count * sizeof(gw_future *));
    const char **hosts = gw_alloc(s, (size_t)(count + 1) * sizeof(char *));
    char own[TRACING_HOST_BYTES];
    int found = 0;
    if (!replies || !hosts) return 0;
    tracing_describe_host(own);
    for (int i = 0; i < count; i++) replies[i] = gw_rpc_async(s, workers[i], "gw.trace_host");
    for (int i = 0; i < count; i++) {
        gw_scope *t = gw_scope_open(s);
        const char *host = gw_string_of(t, gw_wait(t, replies[i]));
        bool is_known = !gw_ok(t) || strcmp(host, own) == 0;
        for (int k = 0; !is_known && k < found; k++) is_known = strcmp(host, hosts[k]) == 0;
        if (!gw_ok(t)) report("gw_trace_start", &workers[i], t);
        if (!is_known) {
            out[found] = i;
            hosts[found++] = gw_format(s, "%s", host);
        }
        scope_close_unread(t);
    }
    return found;
}

// Starts the traces of other hosts, and notes the workers that have them.
static void begin_elsewhere(gw_scope *s, const char *levels, double seconds) {
    int count = 0;
    const gw_worker *workers = gw_rpc_workers(s, &count);
    int *chosen = gw_alloc(s, (size_t)(count + 1) * sizeof *chosen);
    int *ranks = mem_alloc((size_t)(count + 1) * sizeof *ranks), rank_count = 0;
    int found = chosen && ranks ? find_hosts(s, workers, count, chosen) : 0;
    for (int i = 0; i < found; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_rpc_sync(t, workers[chosen[i]], "gw.trace_start", levels, seconds);
        if (gw_ok(t))
            ranks[rank_count++] = workers[chosen[i]].rank;
        else
            report("gw_trace_start", &workers[chosen[i]], t);
        scope_close_unread(t);
    }
    tracing_keep_ranks(ranks, rank_count);
}

static bool check_options(gw_scope *s, const char *levels, double seconds) {
    const char *wrong = "";
    size_t size = 0;
    uint32_t ignored;
    if (!(seconds >= 0 && seconds <= SECONDS_MAX))
        return scope_fail(s, GW_INVALID, "gw_trace_start: %g seconds; it takes 0 to %d", seconds,
                          SECONDS_MAX);
    if (strlen(levels) < LEVELS_BYTES && trace_levels_parse(levels, &ignored, &wrong, &size))
        return true;
    return scope_fail(s, GW_INVALID, "gw_trace_start: \"%.*s\" is no level; there are %s",
                      (int)(size < 32 ? size : 32), wrong, trace_level_names());
}

void gw_trace_start_with(gw_scope *s, gw_trace_options options) {
    const char *levels = options.levels ? options.levels : TRACE_USUAL_LEVELS;
    gw_error error;
    agent *a = agent_of(s);
    if (!a || !check_options(s, levels, options.seconds)) return;
    gw_scope *work = gw_scope_open(s);
    if (tracing_begin_here(a, levels, options.seconds, gw_scope_time_left_ms(s), &error))
        scope_fail_of(work, "gw_trace_start", error.status, "%s", error.text);
    else
        begin_elsewhere(work, levels, options.seconds);
    gw_scope_close_up(work);
}

// ---- Writing ------------------------------------------------------------------------------------

static bool write_file(char out[PATH_MAX], gw_value v, gw_error *error) {
    if (tracing_make_file(out, error)) return false;
    int fd = open(out, O_WRONLY | O_CLOEXEC);
    size_t done = 0;
    ssize_t n = fd >= 0;
    while (n > 0 && done < v.size) {
        n = write(fd, (const char *)v.as.bytes + done, v.size - done);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            done += (size_t)n;
    }
    if (done < v.size)
        error_set(error, GW_SYSTEM, "%.400s: %s", out, system_error_text(errno).text);
    if (fd >= 0) close(fd);
    if (done < v.size) unlink(out);
    return done == v.size;
}

// The records of the host of that rank, in a new file; false if they cannot be had, which is logged.
static bool fetch(gw_scope *s, int rank, char out[PATH_MAX]) {
    gw_scope *t = gw_scope_open(s);
    gw_error error;
    gw_worker w = gw_rpc_worker(t, rank);
    gw_value v = gw_rpc_sync(t, rank, "gw.trace_stop");
    if (gw_ok(t) && (v.kind != GW_BYTES || !write_file(out, v, &error)))
        scope_fail_of(t, "gw_trace_stop", GW_SYSTEM, "%s",
                      v.kind == GW_BYTES ? error.text : "the reply has no bytes");
    bool ok = gw_ok(t);
    if (!ok) report("gw_trace_stop", &w, t);
    scope_close_unread(t);
    return ok;
}

// Of this host and of others. Returns their count.
static int collect(gw_scope *s, const int *ranks, int rank_count, char (*files)[PATH_MAX]) {
    gw_error error;
    int count = 0;
    if (tracing_end_here(files[0], gw_scope_time_left_ms(s), &error))
        scope_fail_of(s, "gw_trace_stop", error.status, "%s", error.text);
    else
        count = 1;
    // Also after an error, so that no trace stays open.
    gw_scope *t = scope_open_regardless(s);
    for (int i = 0; i < rank_count; i++) count += fetch(t, ranks[i], files[count]);
    scope_close_unread(t);
    return count;
}

static void merge(gw_scope *s, char (*files)[PATH_MAX], int count, const char *to) {
    const char **paths = gw_alloc(s, (size_t)count * sizeof(char *));
    gw_error error;
    for (int i = 0; paths && i < count; i++) paths[i] = files[i];
    if (paths && tracer_merge(paths, count, to, gw_scope_time_left_ms(s), &error))
        scope_fail_of(s, "gw_trace_stop", error.status, "%s", error.text);
}

void gw_trace_stop(gw_scope *s, const char *file) {
    // A job that fails has a trace, too.
    gw_scope *work = scope_open_regardless(s);
    int *ranks = NULL;
    if (!agent_of(s)) {
        gw_scope_close_up(work);
        return;
    }
    int rank_count = tracing_take_ranks(&ranks);
    char(*files)[PATH_MAX] = gw_alloc(work, (size_t)(rank_count + 1) * sizeof *files);
    int count = files ? collect(work, ranks, rank_count, files) : 0;
    if (gw_ok(work) && (!file || !*file))
        scope_fail(work, GW_INVALID, "gw_trace_stop: the path of a file is missing");
    if (gw_ok(work)) merge(work, files, count, file);
    for (int i = 0; i < count; i++) unlink(files[i]);
    mem_free(ranks);
    gw_scope_close_up(work);
}
