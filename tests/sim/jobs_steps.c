// The steps of mixed workloads' workers, one after the other.
#include "base/map.h"
#include "jobs.h"
#include "testing/testing.h"

#include <stdio.h>

uint64_t jobs_draw(jobs_worker *w, uint64_t below) {
    w->random = hash_u64(w->random + 1);
    return w->random % below;
}

int jobs_choose_rank(gw_scope *s, uint64_t choice) {
    if (jobs_now->kind != JOBS_GROUP) return (int)(choice % (uint64_t)jobs_now->worker_count);
    int count;
    const gw_worker *there = gw_rpc_workers(s, &count);
    return there ? there[choice % (uint64_t)count].rank : 0;
}

static int someone(jobs_worker *w) {
    return jobs_choose_rank(w->scope, jobs_draw(w, 1000));
}

// A worker by name or by rank.
static gw_target to_a_worker(jobs_worker *w, gw_scope *s) {
    int rank = someone(w);
    if (w->jobs->kind == JOBS_GROUP || jobs_draw(w, 2)) return gw_to_rank(rank);
    return gw_to_name(gw_format(s, "w%d", rank));
}

static void expect_int(gw_scope *s, int64_t call, gw_value v, int64_t expected) {
    if (!jobs_call_ends(s, call)) return;
    assert_int_equal(gw_int_of(s, v), expected);
}

// ---- Calls --------------------------------------------------------------------------------------

static void call_one(jobs_worker *w, gw_scope *s) {
    int64_t call = jobs_new_call(), x = (int64_t)jobs_draw(w, 1000);
    const char *f = jobs_draw(w, 2) ? "jobs_next" : "jobs_next_slowly";
    expect_int(s, call, JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), f, V(call), V(x)), x + 1);
}

static void call_deep(jobs_worker *w, gw_scope *s) {
    int64_t call = jobs_new_call(), depth = (int64_t)jobs_draw(w, 4);
    gw_value v =
        JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_chain", V(call), V(depth), V(5));
    expect_int(s, call, v, 5 + depth + 2);
}

static void call_all(jobs_worker *w, gw_scope *s) {
    gw_future *fs[JOBS_NODES_MAX];
    int64_t calls[JOBS_NODES_MAX];
    int count = gw_rpc_world_size(s);
    for (int i = 0; i < count; i++) {
        const char *f = jobs_draw(w, 2) ? "jobs_next" : "jobs_next_slowly";
        calls[i] = jobs_new_call();
        fs[i] = JOBS_CALL(gw_rpc_async, s, gw_to_rank(jobs_choose_rank(s, (uint64_t)i)), f,
                          V(calls[i]), V(i));
    }
    for (int i = 0; i < count; i++) expect_int(s, calls[i], gw_wait(s, fs[i]), i + 1);
}

static void call_later(jobs_worker *w, gw_scope *s) {
    int64_t call = jobs_new_call();
    gw_value v =
        JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_later", V(call), V(someone(w)), V(7));
    expect_int(s, call, v, 9);
}

static void call_that_fails(jobs_worker *w, gw_scope *s) {
    int64_t call = jobs_new_call();
    JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_fail", V(call));
    jobs_expect(s, call, GW_REMOTE);
}

static void call_that_is_late(jobs_worker *w, gw_scope *s) {
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, 50);
    int64_t call = jobs_new_call();
    JOBS_CALL(gw_rpc_sync, t, to_a_worker(w, t), "jobs_never", V(call));
    jobs_expect(t, call, GW_TIMEOUT);
    gw_scope_close_up(t);
}

// Cancels a call: it has no effect, unless it completes before.
static void call_and_cancel(jobs_worker *w, gw_scope *s) {
    static const char *const functions[] = { "jobs_chain", "jobs_later", "jobs_spin" };
    int64_t call = jobs_new_call();
    gw_future *f = JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), functions[jobs_draw(w, 3)],
                             V(call), V(someone(w)), V(5));
    if (jobs_draw(w, 3)) jobs_pause(s, (int64_t)jobs_draw(w, 4));
    gw_cancel(s, f);
    gw_wait(s, f);
    if (gw_ok(s)) {
        jobs_call_ends(s, call);
    } else {
        jobs_expect(s, call, GW_CANCELLED);
    }
}

// f4(f3(f1, f2), f2) over several workers; some of the futures are never waited for.
static void promise(jobs_worker *w, gw_scope *s) {
    int64_t n[4];
    for (int i = 0; i < 4; i++) n[i] = jobs_new_call();
    jobs_depend(n[2], n[0]);
    jobs_depend(n[2], n[1]);
    jobs_depend(n[3], n[1]);
    jobs_depend(n[3], n[2]);
    gw_future *f1 =
        JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_next_slowly", V(n[0]), V(1));
    gw_future *f2 = JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_next", V(n[1]), V(10));
    gw_future *f3 =
        JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_add", V(n[2]), V(f1), V(f2));
    gw_future *f4 =
        JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_add", V(n[3]), V(f3), V(f2));
    uint64_t waits = jobs_draw(w, 4);
    if (waits == 0) return;
    expect_int(s, n[3], gw_wait(s, f4), 24);
    if (waits == 1) expect_int(s, n[2], gw_wait(s, f3), 13);
}

static void promise_that_fails(jobs_worker *w, gw_scope *s) {
    int64_t first = jobs_new_call(), second = jobs_new_call();
    jobs_depend(second, first);
    gw_future *f = JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_fail", V(first));
    JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_next", V(second), V(f));
    jobs_expect(s, second, GW_REMOTE);
}

static void complete_late(jobs_worker *w, gw_scope *s) {
    int64_t call = jobs_new_call();
    gw_future *mine = gw_future_open(s);
    gw_future *f = JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_next", V(call), V(mine));
    jobs_pause(s, (int64_t)jobs_draw(w, 5));
    gw_future_set(s, mine, 3);
    // If a worker was fenced meanwhile, the call has failed.
    if (gw_scope_error(s)->status == GW_WRONG_STATE && jobs_has_ends()) gw_scope_clear(s);
    expect_int(s, call, gw_wait(s, f), 4);
}

// ---- References ---------------------------------------------------------------------------------

static void make(jobs_worker *w, gw_scope *s, int i) {
    int64_t x = w->numbers[i] = (int64_t)jobs_draw(w, 1000000), call = jobs_new_call();
    gw_rref *r = jobs_draw(w, 4)
                     ? JOBS_CALL(gw_remote, s, to_a_worker(w, s), "jobs_make", V(call), V(x))
                     : gw_rref_open(s, gw_full(s, GW_I64, x, 2));
    gw_set(w->scope, &w->held[i], r);
    jobs_use_ends(s);
}

static void drop(jobs_worker *w, gw_scope *s, int i) {
    (void)s;
    gw_set(w->scope, &w->held[i], NULL);
}

static void read_here(jobs_worker *w, gw_scope *s, int i) {
    gw_tensor *x = gw_to_here(s, w->held[i]);
    if (jobs_use_ends(s)) assert_int_equal(gw_item_int(s, gw_select(s, x, 0, 0)), w->numbers[i]);
}

static void read_there(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    gw_value v = jobs_draw(w, 2) ? JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_read",
                                             V(call), V(w->held[i]))
                                 : JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_read_through",
                                             V(call), V(w->held[i]), V(someone(w)));
    expect_int(s, call, v, w->numbers[i]);
}

static void read_list_there(jobs_worker *w, gw_scope *s, int i) {
    gw_list *list = gw_list_open(s);
    int64_t call = jobs_new_call(), sum = 0;
    for (int k = 0; k <= i; k++) {
        if (!w->held[k]) continue;
        gw_list_add(s, list, w->held[k]);
        sum += w->numbers[k];
    }
    gw_value v = JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_read_list", V(call), V(list));
    expect_int(s, call, v, sum);
}

// A call uses the reference, which is dropped before the call has been served.
static void use_and_drop(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    gw_future *f =
        JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_read", V(call), V(w->held[i]));
    gw_set(w->scope, &w->held[i], NULL);
    expect_int(s, call, gw_wait(s, f), w->numbers[i]);
}

static void send_and_forget(jobs_worker *w, gw_scope *s, int i) {
    JOBS_CALL(gw_rpc_async, s, to_a_worker(w, s), "jobs_ignore", V(jobs_new_call()), V(w->held[i]));
    jobs_use_ends(s);
}

static void exchange(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    gw_value v = JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_same", V(call), V(w->held[i]));
    if (jobs_call_ends(s, call)) gw_set(w->scope, &w->held[i], gw_rref_of(s, v));
}

static void refer_to_reference(jobs_worker *w, gw_scope *s, int i) {
    int64_t made = jobs_new_call(), call = jobs_new_call();
    jobs_depend(call, made);
    gw_rref *r = JOBS_CALL(gw_remote, s, to_a_worker(w, s), "jobs_same", V(made), V(w->held[i]));
    gw_value v = JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_read", V(call), V(r));
    expect_int(s, call, v, w->numbers[i]);
}

static void make_nothing(jobs_worker *w, gw_scope *s, int i) {
    (void)i;
    int64_t made = jobs_new_call();
    gw_rref *r = JOBS_CALL(gw_remote, s, to_a_worker(w, s), "jobs_fail", V(made));
    uint64_t how = jobs_draw(w, 3);
    int64_t call = how ? jobs_new_call() : 0;
    if (how) jobs_depend(call, made);
    if (how == 0) gw_to_here_value(s, r);
    if (how == 1) JOBS_CALL(gw_rpc_sync, s, to_a_worker(w, s), "jobs_read", V(call), V(r));
    if (how == 2) {
        made = jobs_new_call();
        jobs_depend(call, made);
        r = JOBS_CALL(gw_remote, s, to_a_worker(w, s), "jobs_shelf", V(made), V(1));
        JOBS_CALL(gw_rpc_sync, s, gw_to_rref(r), "count", V(call), V(1));
    }
    jobs_expect(s, call, GW_REMOTE);
}

// ---- Objects ------------------------------------------------------------------------------------

static void open_shelf(jobs_worker *w, gw_scope *s) {
    gw_rref *r = JOBS_CALL(gw_remote, s, to_a_worker(w, s), "jobs_shelf", V(jobs_new_call()), V(0));
    gw_set(w->scope, &w->shelf, r);
    for (int i = 0; i < JOBS_HELD; i++) w->shelved[i] = -1, w->put_by[i] = 0;
    jobs_use_ends(s);
}

static void put_on_shelf(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    int place = (int)jobs_draw(w, JOBS_HELD);
    JOBS_CALL(gw_rpc_sync, s, gw_to_rref(w->shelf), "put", V(call), V(place), V(w->held[i]));
    w->put_by[place] = call;
    bool is_there = jobs_call_ends(s, call);
    w->shelved[place] = is_there ? w->numbers[i] : -1;
}

static void take_from_shelf(jobs_worker *w, gw_scope *s, int i) {
    int64_t call = jobs_new_call();
    int place = (int)jobs_draw(w, JOBS_HELD);
    jobs_follow(call, w->put_by[place]);
    gw_value v = JOBS_CALL(gw_rpc_sync, s, gw_to_rref(w->shelf), "get", V(call), V(place));
    if (!jobs_call_ends(s, call) || w->shelved[place] < 0) return;
    gw_set(w->scope, &w->held[i], gw_rref_of(s, v));
    w->numbers[i] = w->shelved[place];
}

static void count_on_shelf(jobs_worker *w, gw_scope *s, int i) {
    (void)i;
    gw_future *fs[3];
    int64_t calls[3];
    for (int k = 0; k < 3; k++) {
        calls[k] = jobs_new_call();
        fs[k] = JOBS_CALL(gw_rpc_async, s, gw_to_rref(w->shelf), "count", V(calls[k]), V(k));
    }
    for (int k = 0; k < 3; k++) {
        gw_value v = gw_wait(s, fs[k]);
        if (jobs_call_ends(s, calls[k])) assert_true(gw_int_of(s, v) >= k);
    }
}

// ---- One step -----------------------------------------------------------------------------------

typedef void call_step(jobs_worker *w, gw_scope *s);
typedef void ref_step(jobs_worker *w, gw_scope *s, int i);

static call_step *const call_steps[] = {
    call_one, call_deep,          call_all,      call_later, call_that_fails, call_that_is_late,
    promise,  promise_that_fails, complete_late, promise,    call_and_cancel, call_and_cancel,
};
static ref_step *const ref_steps[] = {
    make,     drop,     read_here,    read_there,         read_list_there, use_and_drop,
    exchange, exchange, make_nothing, refer_to_reference, send_and_forget,
};
static ref_step *const shelf_steps[] = { put_on_shelf, put_on_shelf, take_from_shelf,
                                         count_on_shelf };
enum {
    CALL_STEPS = sizeof call_steps / sizeof call_steps[0],
    REF_STEPS = sizeof ref_steps / sizeof ref_steps[0],
    SHELF_STEPS = sizeof shelf_steps / sizeof shelf_steps[0],
};

static void choose_step(jobs_worker *w, gw_scope *s) {
    int i = (int)jobs_draw(w, JOBS_HELD);
    uint64_t what = jobs_draw(w, 8);
    if (what < 3) {
        call_steps[jobs_draw(w, CALL_STEPS)](w, s);
    } else if (!w->shelf || (what == 3 && jobs_draw(w, 4) == 0)) {
        open_shelf(w, s);
    } else if (!w->held[i]) {
        make(w, s, i);
    } else if (w->jobs->kind == JOBS_TOGETHER && jobs_draw(w, 2)) {
        jobs_together_step(w, s, i);
    } else if (what < 5) {
        shelf_steps[jobs_draw(w, SHELF_STEPS)](w, s, i);
    } else {
        ref_steps[jobs_draw(w, REF_STEPS)](w, s, i);
    }
}

// A lost reference stays lost: the next one replaces it.
void jobs_step(jobs_worker *w) {
    sim_counts before = sim_count(w->jobs->sim);
    int64_t start_ns = sim_now_ns(w->jobs->sim);
    gw_scope *s = gw_scope_open(w->scope);
    choose_step(w, s);
    jobs_use_ends(s);
    gw_error left = gw_scope_close(s);
    (void)left;
    int64_t took_ns = sim_now_ns(w->jobs->sim) - start_ns;
    if (took_ns > jobs_patience_ns(before))
        fail_msg("a step of worker %d took %.6f s of %.6f", w->node, (double)took_ns / 1e9,
                 (double)jobs_patience_ns(before) / 1e9);
}
