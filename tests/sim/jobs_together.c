// The steps of mixed workloads that use many workers: one-way calls, calls to all, values of
// references, and collectives.
#include "jobs.h"
#include "testing/testing.h"

// ---- Functions ----------------------------------------------------------------------------------

// The call of each worker has a number of its own.
GW_FUNCTION(jobs_each, GW_POOL, "int, int") {
    int rank = gw_rpc_self(s).rank;
    int64_t call = gw_arg_int(s, a, 0) + rank;
    jobs_body_runs(s, call);
    if (call % 3 == 0) jobs_pause(s, call % 5);
    return gw_value_of(gw_arg_int(s, a, 1) + rank);
}

GW_FUNCTION(jobs_first, GW_INLINE, "int, tensor") {
    jobs_body_runs(s, gw_arg_int(s, a, 0));
    return gw_value_of(gw_item_int(s, gw_select(s, gw_arg_tensor(s, a, 1), 0, 0)));
}

// ---- Steps --------------------------------------------------------------------------------------

static int someone(jobs_worker *w, gw_scope *s) {
    return jobs_choose_rank(s, jobs_draw(w, 1000));
}

static int all_workers(gw_scope *s, gw_worker out[JOBS_NODES_MAX]) {
    int count = jobs_now->worker_count;
    for (int i = 0; i < count; i++) out[i] = gw_rpc_worker(s, i);
    return count;
}

// A one-way call: only an error in sending it is reported.
static void notified(gw_scope *s, int64_t call) {
    if (gw_ok(s)) {
        jobs_use_ends(s);
    } else {
        jobs_call_ends(s, call);
    }
}

static void notify(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    switch (jobs_draw(w, 4)) {
    case 0: gw_rpc_notify(s, someone(w, s), "jobs_next_slowly", call, 1); break;
    case 1: gw_rpc_notify(s, someone(w, s), "jobs_ignore", call, w->held[i]); break;
    case 2: gw_rpc_notify(s, someone(w, s), "jobs_first", call, gw_by_value(s, w->held[i])); break;
    case 3: gw_rpc_notify(s, someone(w, s), "jobs_fail", call); break;
    }
    notified(s, call);
}

static void call_all(jobs_worker *w, gw_scope *s, int i) {
    (void)i;
    gw_worker workers[JOBS_NODES_MAX];
    int count = all_workers(s, workers);
    int64_t first = jobs_new_call(), x = (int64_t)jobs_draw(w, 1000);
    for (int k = 1; k < count; k++) jobs_new_call();
    gw_list *all = gw_rpc_sync_all(s, workers, count, "jobs_each", first, x);
    if (!jobs_use_ends(s)) return;
    for (int k = 0; k < count; k++) {
        assert_int_equal(jobs_now->calls[first + k].runs, 1);
        assert_int_equal(gw_int_of(s, gw_list_get(s, all, k)), x + k);
    }
}

static void pass_value(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    gw_future *f = gw_rpc_async(s, someone(w, s), "jobs_first", call, gw_by_value(s, w->held[i]));
    if (jobs_draw(w, 2)) gw_set(w->scope, &w->held[i], NULL);
    gw_value v = gw_wait(s, f);
    if (jobs_call_ends(s, call)) assert_int_equal(gw_int_of(s, v), w->numbers[i]);
}

void jobs_together_step(jobs_worker *w, gw_scope *s, int i) {
    switch (jobs_draw(w, 3)) {
    case 0: notify(w, s, i); break;
    case 1: call_all(w, s, i); break;
    case 2: pass_value(w, s, i); break;
    }
}

// ---- Collectives --------------------------------------------------------------------------------

// Without a deadline: all workers enter each collective, or are lost, so that each ends.
void jobs_run_collective(jobs_worker *w, int number) {
    gw_worker workers[JOBS_NODES_MAX];
    gw_scope *s = gw_scope_open(w->scope);
    int count = all_workers(s, workers), first = 0;
    if (number % 3 == 2) {  // each with a neighbour, if there is one
        first = w->rank & ~1;
        count = first + 1 < count ? 2 : 1;
    }
    if (number % 3 == 1) gw_rpc_barrier(s, workers + first, count);
    gw_list *all = gw_rpc_all_gather(s, workers + first, count, number * 1000 + w->rank);
    if (jobs_use_ends(s))
        for (int i = 0; i < count; i++)
            assert_int_equal(gw_int_of(s, gw_list_get(s, all, i)), number * 1000 + first + i);
    gw_error left = gw_scope_close(s);
    (void)left;
}
