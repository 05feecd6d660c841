#include "launch/environment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/roles.h"

enum { VALUE_BYTES = 1536 };

typedef struct visitor {
    bool (*visit)(void *user, const char *name, const char *value);
    void *user;
    bool ok;
} visitor;

__attribute__((format(printf, 3, 4))) static void add(visitor *v, const char *name,
                                                      const char *format, ...) {
    char value[VALUE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    v->ok = v->ok && v->visit(v->user, name, value);
}

// A job inside a job carries both marks, so that the outer one still finds everything.
static void add_mark(visitor *v, const char *mark) {
    const char *outer = getenv("GRADWIRE_JOB");
    bool fits = outer && strlen(outer) + strlen(mark) + 2 < VALUE_BYTES;
    add(v, "GRADWIRE_JOB", "%s%s%s", fits ? outer : "", fits ? ":" : "", mark);
}

static void add_place(visitor *v, const run_options *run, int index) {
    add(v, "RANK", "%d", run_rank(run, index));
    add(v, "WORLD_SIZE", "%d", run_world_size(run));
    add(v, "LOCAL_RANK", "%d", index);
    add(v, "LOCAL_WORLD_SIZE", "%d", run->rank_count);
    add(v, "GROUP_RANK", "%d", run->node_rank);
    add(v, "GROUP_WORLD_SIZE", "%d", run->node_count);
}

static void add_master(visitor *v, const run_options *run, int port) {
    add(v, "MASTER_ADDR", "%s", run->rdzv_endpoint[0] ? run->rdzv_host : "127.0.0.1");
    if (port)
        add(v, "MASTER_PORT", "%d", port);
    else
        add(v, "MASTER_PORT", "a free one of host 0");
}

static void add_key(visitor *v, const run_options *run, int key_fd) {
    if (run->key && key_fd >= 0)
        add(v, "GW_KEY_FD", "%d", key_fd);
    else if (run->key)
        add(v, "GW_KEY_FD", "a descriptor of %.900s", run->key);
    if (run->insecure) add(v, "GW_INSECURE", "1");
    if (run->local_addr) add(v, "GW_ADDRESS", "%s", run->local_addr);
}

static void add_role(visitor *v, const run_options *run, int index) {
    int number;
    const run_role *r = roles_find(run, index, &number);
    add(v, "ROLE_NAME", "%s", r ? r->name : run->role);
    add(v, "ROLE_RANK", "%d", r ? number : run_rank(run, index));
    add(v, "ROLE_WORLD_SIZE", "%d", r ? r->count : run_world_size(run));
    if (r) add(v, "GW_NAME", "%s%d", r->name, number);
}

// The variables of torchrun that its programs read.
static void add_torchelastic(visitor *v, const variables_options *o) {
    const run_options *run = o->run;
    const char *id = run->rdzv_id[0] ? run->rdzv_id : o->job_id[0] ? o->job_id : o->run_id;
    add_role(v, run, o->index);
    add(v, "TORCHELASTIC_RUN_ID", "%s", id);
    add(v, "TORCHELASTIC_RESTART_COUNT", "%d", o->attempt);
    add(v, "TORCHELASTIC_MAX_RESTARTS", "%d", run->max_restarts);
    if (o->error_file) add(v, "TORCHELASTIC_ERROR_FILE", "%s", o->error_file);
}

static bool may_start(failure_policy p) {
    return p == FAILURE_RESTART || p == FAILURE_AUTO;
}

// For gw_elastic_open, where a rank may start again alone.
static void add_elastic(visitor *v, const variables_options *o) {
    const run_options *run = o->run;
    bool may_start_alone = may_start(run->on_failure);
    for (int i = 0; i < run->role_count; i++) may_start_alone |= may_start(run->roles[i].policy);
    bool may_join = run->is_dynamic && run->on_failure == FAILURE_KEEP;
    if (run->checkpoint_dir) add(v, "GW_CHECKPOINT_DIR", "%s", run->checkpoint_dir);
    if (!may_start_alone && !may_join) return;
    add(v, "GW_ELASTIC", "%d:%d", run->is_dynamic ? run->node_min * run->rank_count : 1,
        run_world_max(run));
    add(v, "GW_ELASTIC_CREATE", "%d", o->creates);
}

// The program that writes traces for the ranks (gw_trace_start, GW_TRACE): this one.
static void add_tool(visitor *v) {
    char path[VALUE_BYTES];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || getenv("GW_TOOL")) return;
    path[n] = '\0';
    add(v, "GW_TOOL", "%s", path);
}

bool variables_visit(const variables_options *o,
                     bool (*visit)(void *user, const char *name, const char *value), void *user) {
    visitor v = { .visit = visit, .user = user, .ok = true };
    add_mark(&v, o->mark);
    add_place(&v, o->run, o->index);
    add_master(&v, o->run, o->port);
    if (o->job_id[0]) add(&v, "GW_JOB_ID", "%s", o->job_id);
    add_key(&v, o->run, o->key_fd);
    add_torchelastic(&v, o);
    add_elastic(&v, o);
    add_tool(&v);
    if (o->flight_fd > 0) add(&v, "GW_FLIGHT_FD", "%d", o->flight_fd);
    return v.ok;
}
