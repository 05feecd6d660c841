#include "runtime/tracing.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/scope.h"
#include "base/system_error.h"
#include "call/registry.h"
#include "lend/mapping.h"
#include "runtime/tracer.h"
#include "trace/wanted.h"
#include <gradwire/rpc.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { END_MS = 30000 };

// The memory of records belongs to the process, and so does its trace. A process that fork has made has no agent, and
// never takes the lock.
static struct {
    pthread_mutex_t lock;
    tracer own;           // of this host
    char file[PATH_MAX];  // of its records, until the trace is written
    const agent *agent;   // whose end ends it; NULL: none is open
    bool is_of_variable;  // of GW_TRACE
    int *ranks;           // of the workers on other hosts that trace there
    int rank_count;
} here = { .lock = PTHREAD_MUTEX_INITIALIZER };

// ---- The trace of this host ---------------------------------------------------------------------

gw_status tracing_make_file(char out[PATH_MAX], gw_error *error) {
    const char *folder = getenv("TMPDIR");
    snprintf(out, PATH_MAX, "%s/gradwire-trace-XXXXXX.gwt", folder && *folder ? folder : "/tmp");
    int fd = mkostemps(out, (int)strlen(".gwt"), O_CLOEXEC);
    if (fd < 0)
        return error_set(error, GW_SYSTEM, "%.400s: %s", out, system_error_text(errno).text);
    close(fd);
    return GW_OK;
}

gw_status tracing_begin_here(const agent *a, const char *levels, double seconds, int64_t timeout_ms,
                             gw_error *error) {
    pthread_mutex_lock(&here.lock);
    gw_status status =
        here.agent ? error_set(error, GW_WRONG_STATE, "this process has a trace already") : GW_OK;
    if (!status) status = tracing_make_file(here.file, error);
    if (!status) {
        const tracer_wish wish = { .levels = levels, .file = here.file, .seconds = seconds };
        status = tracer_open(&here.own, &wish, timeout_ms, error);
        if (status) unlink(here.file);
        if (!status) here.agent = a;
    }
    pthread_mutex_unlock(&here.lock);
    return status;
}

static void forget(void) {
    here.agent = NULL;
    mem_free(here.ranks);
    here.ranks = NULL;
    here.rank_count = 0;
    here.is_of_variable = false;
}

gw_status tracing_end_here(char file[PATH_MAX], int64_t timeout_ms, gw_error *error) {
    pthread_mutex_lock(&here.lock);
    gw_status status = here.agent && !here.is_of_variable
                           ? tracer_finish(&here.own, timeout_ms, error)
                           : error_set(error, GW_WRONG_STATE, "no trace has been started");
    if (here.agent && !here.is_of_variable) {
        memcpy(file, here.file, PATH_MAX);
        if (status) unlink(file);
        forget();
    }
    pthread_mutex_unlock(&here.lock);
    return status;
}

// The agent ends before its program has ended the trace.
static void close_with(agent *a) {
    gw_error error;
    pthread_mutex_lock(&here.lock);
    if (here.agent == a) {
        gw_status status = tracer_finish(&here.own, END_MS, &error);
        if (status) log_line("the trace is not written: %s", error.text);
        if (!here.is_of_variable) unlink(here.file);
        forget();
    }
    pthread_mutex_unlock(&here.lock);
}

void tracing_keep_ranks(int *ranks, int count) {
    pthread_mutex_lock(&here.lock);
    mem_free(here.ranks);
    here.ranks = ranks;
    here.rank_count = ranks ? count : 0;
    pthread_mutex_unlock(&here.lock);
}

int tracing_take_ranks(int **out) {
    pthread_mutex_lock(&here.lock);
    int count = here.rank_count;
    *out = here.ranks;
    here.ranks = NULL;
    here.rank_count = 0;
    pthread_mutex_unlock(&here.lock);
    return count;
}

// ---- What other workers request -----------------------------------------------------------------

void tracing_describe_host(char out[TRACING_HOST_BYTES]) {
    host_id id;
    bool is_known = host_id_find(&id);
    snprintf(out, TRACING_HOST_BYTES, "%s/%llu", is_known ? id.boot : "?",
             is_known ? (unsigned long long)id.pid_namespace : 0ULL);
}

static gw_value serve_host(gw_scope *s, const gw_args *args) {
    (void)args;
    char *text = gw_alloc(s, TRACING_HOST_BYTES);
    if (!text) return gw_none();
    tracing_describe_host(text);
    return gw_value_of_string(text);
}

static gw_value serve_start(gw_scope *s, const gw_args *args) {
    const char *levels = gw_arg_string(s, args, 0);
    double seconds = gw_arg_float(s, args, 1);
    gw_error error;
    if (gw_ok(s) &&
        tracing_begin_here(agent_of(s), levels, seconds, gw_scope_time_left_ms(s), &error))
        scope_fail_with(s, &error);
    return gw_none();
}

static void *read_file(gw_scope *s, const char *path, size_t *out_size) {
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *data = fd >= 0 && !fstat(fd, &is) ? gw_alloc(s, (size_t)is.st_size + 1) : NULL;
    ssize_t n = 1;
    *out_size = 0;
    while (data && *out_size < (size_t)is.st_size && n > 0) {
        n = read(fd, data + *out_size, (size_t)is.st_size - *out_size);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            *out_size += (size_t)n;
    }
    if (gw_ok(s) && (!data || n <= 0))
        scope_fail(s, GW_SYSTEM, "%.400s: %s", path, n ? system_error_text(errno).text : "it ends");
    if (fd >= 0) close(fd);
    return data;
}

static gw_value serve_stop(gw_scope *s, const gw_args *args) {
    (void)args;
    char file[PATH_MAX];
    gw_error error;
    size_t size;
    if (tracing_end_here(file, gw_scope_time_left_ms(s), &error)) {
        scope_fail_with(s, &error);
        return gw_none();
    }
    void *data = read_file(s, file, &size);
    unlink(file);
    return gw_ok(s) ? gw_value_of_bytes(data, size) : gw_none();
}

static const function trace_functions[] = {
    { .name = (char *)"gw.trace_host",
      .where = GW_INLINE,
      .signature = TAKES(),
      .body = serve_host },
    { .name = (char *)"gw.trace_start",
      .where = GW_POOL,
      .signature = TAKES(1 << GW_STRING, 1 << GW_FLOAT),
      .body = serve_start },
    { .name = (char *)"gw.trace_stop", .where = GW_POOL, .signature = TAKES(), .body = serve_stop },
    { 0 },
};

static const function *const functions[] = { trace_functions, NULL };

const service trace_service = { .name = "trace", .functions = functions, .close = close_with };

// ---- GW_TRACE -----------------------------------------------------------------------------------

// "job.pftrace" on the first host, "job.HOST.pftrace" on others.
static void name_file(char out[PATH_MAX], const char *file, int rank) {
    char host[65] = "";
    const char *slash = strrchr(file, '/'), *dot = strrchr(slash ? slash : file, '.');
    int size = (int)(dot ? dot - file : (long)strlen(file));
    gethostname(host, sizeof host - 1);
    if (rank > 0)
        snprintf(out, PATH_MAX, "%.*s.%s%s", size, file, host, dot ? dot : "");
    else
        snprintf(out, PATH_MAX, "%s", file);
}

static void open_of_variable(const agent *a, const trace_wanted *wanted, int rank) {
    char file[PATH_MAX];
    gw_error error;
    name_file(file, wanted->file, rank);
    pthread_mutex_lock(&here.lock);
    const tracer_wish wish = { .levels = wanted->level_names,
                               .steps = getenv("GW_TRACE_STEPS"),
                               .file = file,
                               .from_start = true };
    gw_status status = here.agent ? GW_OK : tracer_open(&here.own, &wish, END_MS, &error);
    if (status)
        log_line("GW_TRACE: there is no trace: %s", error.text);
    else if (!here.agent) {
        here.agent = a;
        here.is_of_variable = true;
    }
    pthread_mutex_unlock(&here.lock);
}

void tracing_begin(gw_scope *root) {
    trace_wanted wanted;
    char why[256];
    const agent *a = root->error ? NULL : agent_of(root);
    // region.c logs what is wrong.
    if (!a || !trace_wanted_parse(getenv("GW_TRACE"), &wanted, why) || !wanted.file) return;
    int local = gw_rpc_launched().local_rank;
    if (local == 0 || (local < 0 && a->rank == 0)) open_of_variable(a, &wanted, a->rank);
}
