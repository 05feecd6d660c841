// The same call to several workers: its arguments are encoded once.
#include "base/mem.h"
#include "call/call.h"
#include "future/collect.h"
#include "future/future.h"

typedef struct spread {
    agent *agent;
    int count;
    gw_future **futures;  // one count each
    call *calls;
} spread;

static void close_spread(spread *x) {
    for (int i = 0; x->calls && i < x->count; i++) call_fini(&x->calls[i]);
    for (int i = 0; x->futures && i < x->count; i++) handle_release(x->futures[i]);
    mem_free(x->calls);
    mem_free(x->futures);
}

// The arguments of its call are encoded once: an unknown worker has none.
static int first_member(const spread *x, const gw_worker *workers) {
    int rank;
    gw_error ignored;
    for (int i = 0; i < x->count; i++)
        if (!target_resolve(x->agent, gw_to_worker(workers[i]), &rank, &ignored)) return i;
    return 0;
}

// All are copied from one before it is sent.
static bool init_calls(spread *x, gw_scope *s, gw_call_options options, const gw_worker *workers,
                       const char *function, int count, const gw_value *args) {
    int first = first_member(x, workers);
    call *from = &x->calls[first];
    call_init(from, s, options, gw_to_worker(workers[first]), function, count, args, true);
    for (int i = 0; i < x->count; i++)
        if (i != first) call_init_again(&x->calls[i], s, from, gw_to_worker(workers[i]));
    for (int i = 0; i < x->count; i++) {
        if (!x->calls[i].future) return scope_fail_with(s, &x->calls[i].error);
        x->futures[i] = handle_retain(x->calls[i].future);
    }
    return true;
}

static bool open_spread(spread *x, gw_scope *s, gw_target to) {
    *x = (spread){ .agent = s->error ? NULL : agent_of(s), .count = to.worker_count };
    if (!x->agent) return false;
    if (to.worker_count < 0 || (to.worker_count && !to.workers))
        return scope_fail(
            s, GW_INVALID,
            "a call to %d workers: this number is negative, or the list of workers is NULL",
            to.worker_count);
    x->calls = mem_calloc((size_t)(x->count + 1) * sizeof *x->calls);
    x->futures = mem_calloc((size_t)(x->count + 1) * sizeof(gw_future *));
    if (x->calls && x->futures) return true;
    return scope_fail(s, GW_NO_MEMORY, "no memory for calls");
}

static void send_all(spread *x) {
    for (int i = 0; i < x->count; i++) call_start(&x->calls[i]);
}

static bool spread_call(spread *x, gw_scope *s, gw_call_options options, gw_target to,
                        const char *function, int count, const gw_value *args) {
    if (!open_spread(x, s, to)) return false;
    if (!x->count) return true;
    if (!init_calls(x, s, options, to.workers, function, count, args)) return false;
    send_all(x);
    return true;
}

gw_list *gw_rpc_sync_all_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                              gw_call_options options) {
    spread x;
    gw_error error;
    if (!s->error && context_check_wait(s, &error)) scope_fail_with(s, &error);
    if (spread_call(&x, s, options, to, function, args.count, args.items))
        gw_wait_all(s, x.futures, x.count);
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < x.count && !s->error; i++)
        gw_list_add_with(s, list, result_give(future_result(x.futures[i]), s));
    close_spread(&x);
    return s->error ? gw_list_open(s) : list;
}

gw_future *gw_rpc_async_all_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                                 gw_call_options options) {
    spread x;
    gw_future *out = &future_poison;
    if (spread_call(&x, s, options, to, function, args.count, args.items))
        out = collect_start(s, x.agent, x.futures, x.count, COLLECT_FAIL_FAST);
    close_spread(&x);
    return out;
}

gw_target gw_to_workers(const gw_worker *workers, int count) {
    return (gw_target){ .rank = INT64_MIN, .workers = workers, .worker_count = count };
}
