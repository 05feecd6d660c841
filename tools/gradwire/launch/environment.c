#include "launch/environment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static void add(variables *v, const char *name,
                                                      const char *format, ...) {
    variable *x = &v->list[v->count++];
    va_list arguments;
    va_start(arguments, format);
    x->name = name;
    vsnprintf(x->value, sizeof x->value, format, arguments);
    va_end(arguments);
}

// A job inside a job carries both marks, so that the outer one still finds everything.
static void add_mark(variables *v, const char *mark) {
    const char *outer = getenv("GRADWIRE_JOB");
    bool fits = outer && strlen(outer) + strlen(mark) + 2 < VARIABLE_BYTES;
    add(v, "GRADWIRE_JOB", "%s%s%s", fits ? outer : "", fits ? ":" : "", mark);
}

void variables_make(const variables_options *o, variables *out) {
    const run_options *run = o->run;
    *out = (variables){ 0 };
    add_mark(out, o->mark);
    add(out, "RANK", "%d", run_rank(run, o->index));
    add(out, "WORLD_SIZE", "%d", run_world_size(run));
    add(out, "LOCAL_RANK", "%d", o->index);
    add(out, "LOCAL_WORLD_SIZE", "%d", run->rank_count);
    add(out, "GROUP_RANK", "%d", run->node_rank);
    add(out, "GROUP_WORLD_SIZE", "%d", run->node_count);
    add(out, "MASTER_ADDR", "%s", run->rdzv_endpoint ? run->rdzv_host : "127.0.0.1");
    if (o->port)
        add(out, "MASTER_PORT", "%d", o->port);
    else
        add(out, "MASTER_PORT", "a free one of host 0");
    if (o->job_id[0]) add(out, "GW_JOB_ID", "%s", o->job_id);
    if (run->key && o->key_fd >= 0)
        add(out, "GW_KEY_FD", "%d", o->key_fd);
    else if (run->key)
        add(out, "GW_KEY_FD", "a descriptor of %.900s", run->key);
    if (run->insecure) add(out, "GW_INSECURE", "1");
}
