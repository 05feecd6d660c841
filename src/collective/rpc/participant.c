// The participant's side of RPC collectives: gw_rpc_all_gather and gw_rpc_barrier.
#include "agent/leaving/awaits.h"
#include "call/call.h"
#include "collective/rpc/collective.h"

#include <stdlib.h>
#include <string.h>

// How much longer than its deadline a participant waits for the leader's reply, which names the participants that
// have not entered: COL-2.
#define GRACE_NS INT64_C(1000000000)

static int compare(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

static bool sort_ranks(gw_scope *s, agent *a, const gw_worker *workers, int count, uint32_t *out) {
    bool inside = false;
    for (int i = 0; i < count; i++) {
        if (workers[i].rank < 0 || workers[i].rank >= a->member_count)
            return scope_fail(s, GW_NOT_FOUND,
                              "the list of workers has rank %d, but the job has %d workers",
                              workers[i].rank, a->member_count);
        out[i] = (uint32_t)workers[i].rank;
        inside = inside || workers[i].rank == a->rank;
    }
    qsort(out, (size_t)count, sizeof *out, compare);
    for (int i = 1; i < count; i++) {
        if (out[i] != out[i - 1]) continue;
        return scope_fail(s, GW_INVALID, "%s is twice in the list of workers",
                          agent_member(a, (int)out[i])->name);
    }
    if (!inside)
        scope_fail(s, GW_INVALID, "%s itself is not in the list of workers",
                   agent_member(a, a->rank)->name);
    return inside;
}

// Counts this thread as being in the group. NULL with |s| failed.
static collective_group *enter_group(gw_scope *s, agent *a, const uint32_t *ranks, int count,
                                     uint64_t *out_number, int *out_called_by) {
    gw_error error;
    collective_group *m = NULL;
    env_enter(a->env);
    gw_status status = awaits_check_acts_on_loop(a, &error);
    if (!status && !(m = collective_group_of_on_loop(a, ranks, count)))
        error_set(&error, GW_LIMIT,
                  "no memory for an RPC collective, or more than %d different lists of workers",
                  LIMIT_COLLECTIVE_GROUPS);
    if (m) {
        m->inside++;
        *out_number = ++m->entered;
        *out_called_by = awaits_caller_on_loop(a, s);
    }
    env_leave(a->env);
    if (!m) scope_fail_with(s, &error);
    return m;
}

static void leave_group(agent *a, collective_group *m) {
    env_enter(a->env);
    if (--m->inside == 0) awaits_check_on_loop(a);
    env_leave(a->env);
}

static void extend(call *c) {
    if (c->deadline_ns < ENV_NEVER - GRACE_NS) c->deadline_ns += GRACE_NS;
}

static gw_list *enter(gw_scope *s, agent *a, const char *function, const uint32_t *ranks, int count,
                      gw_value v) {
    uint64_t number = 0;
    int called_by = -1;
    collective_group *m = enter_group(s, a, ranks, count, &number, &called_by);
    if (!m) return gw_list_open(s);
    call c;
    int64_t timeout_ns = call_time_left_ns(s, GW_OPTIONS(gw_call_options));
    const gw_value args[] = { gw_value_of_bytes(ranks, (size_t)count * sizeof *ranks),
                              gw_value_of_int((int64_t)number), gw_value_of_int(timeout_ns), v,
                              gw_value_of_int(called_by) };
    call_init(&c, s, GW_OPTIONS(gw_call_options), gw_to_rank(ranks[0]), function, 5, args, true);
    extend(&c);
    gw_value all = call_sync(&c, s);
    call_fini(&c);
    leave_group(a, m);
    return gw_list_of(s, all);
}

static int index_of(const uint32_t *ranks, int rank) {
    int at = 0;
    while (ranks[at] != (uint32_t)rank) at++;
    return at;
}

static gw_list *run_collective(gw_scope *s, const char *function, const gw_worker *workers,
                               int count, gw_value v) {
    gw_error error;
    awaits_note_root(s);
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return gw_list_open(s);
    if (context_check_wait(s, &error)) {
        scope_fail_with(s, &error);
        return gw_list_open(s);
    }
    if (count < 1 || count > LIMIT_WORKERS || !workers) {
        scope_fail(s, GW_INVALID, "%s: the list of workers has %d items%s, but must have 1 to %d",
                   strcmp(function, "gw.barrier") ? "gw_rpc_all_gather" : "gw_rpc_barrier", count,
                   workers ? "" : " and is NULL", LIMIT_WORKERS);
        return gw_list_open(s);
    }
    uint32_t *ranks = gw_alloc(s, (size_t)count * sizeof *ranks);
    if (!ranks || !sort_ranks(s, a, workers, count, ranks)) return gw_list_open(s);
    gw_list *sorted = enter(s, a, function, ranks, count, v), *out = gw_list_open(s);
    for (int i = 0; i < count && !s->error; i++)
        gw_list_add_with(s, out, gw_list_get(s, sorted, index_of(ranks, workers[i].rank)));
    return s->error ? gw_list_open(s) : out;
}

gw_list *gw_rpc_all_gather_with(gw_scope *s, const gw_worker *workers, int count, gw_value v) {
    return run_collective(s, "gw.all_gather", workers, count, v);
}

void gw_rpc_barrier(gw_scope *s, const gw_worker *workers, int count) {
    run_collective(s, "gw.barrier", workers, count, gw_none());
}
