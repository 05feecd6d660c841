// Parts of passes that are REDUCING: a gate of a participant has not answered yet. It answers, fails, or never answers,
// and the pass is aborted, cancelled, or loses a worker meanwhile. In each case there is one named error or the right
// gradients, the gate is notified once of the end of the pass, no worker keeps anything of it, and a fresh pass works.
#include "autograd/gate.h"
#include "base/scope.h"
#include "distributed/autograd/distributed_pass.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { WORKERS = 4, GATED = 1, OTHER = 2, OBSERVER = 3, SIZE = 3, SEEDS = 8, FACTOR = 10 };

typedef enum event {
    ANSWERED,
    REFUSED,
    DEADLINE,
    CANCELLED,
    INITIATOR_LOST,
    OTHER_LOST,
    ITSELF_LOST,
    EVENT_COUNT
} event;

static const char *const event_names[] = { "it answers",         "it fails",
                                           "the deadline",       "a cancel",
                                           "the initiator lost", "another participant lost",
                                           "its worker lost" };

// One run at a time: bodies, gates and the director find it here.
static struct scene {
    sim *sim;
    event event;
    agent *agents[WORKERS];
    gw_tensor *weights[WORKERS];
    gate gate;
    gw_scope *own;  // for the gate's tensors
    late *answer;
    gw_tensor *gradient;
    bool has_reduced, is_fresh, unsynchronised;
    int begun, ended, failed;
    gw_error reported;  // by the gate
    gw_error observed;  // by the initiator's caller
} now;

// ---- The gate -----------------------------------------------------------------------------------

static void begin(gate_pass *g, gw_scope *s) {
    (void)s;
    now.begun++;
    now.answer = g->answer;
    assert_true(g->reached[0]);
}

static void gradient(gate_pass *g, gw_scope *s, int i, gw_tensor *x) {
    gw_tensor *earlier = gate_earlier(g, i);
    now.gradient = handle_retain(earlier ? gw_add(s, x, earlier) : x);
}

static void end(gate_pass *g, const gw_error *error) {
    (void)g;
    now.ended++;
    now.failed += error != NULL;
    if (error) now.reported = *error;
}

static const gate_class class = { .begin = begin, .gradient = gradient, .end = end };
static const handle_class gate_handle_class = { .name = "gate" };

static void open_gate(gw_scope *root) {
    handle_init(&now.gate.handle, &gate_handle_class);
    now.gate.class = &class;
    now.gate.leaves = &now.weights[GATED];
    now.gate.leaf_count = 1;
    now.own = root;
    assert_true(gate_set(root, &now.gate));
}

static void give_answer(void) {
    gw_tensor *sum = gw_mul(now.own, now.gradient, FACTOR);
    handle_release(now.gradient);
    now.gradient = NULL;
    if (now.event == REFUSED && !now.is_fresh)
        late_fail(now.answer,
                  &(gw_error){ .status = GW_DISCONNECTED, .text = "w7 is gone: killed" });
    else
        late_answer(now.answer, &sum);
}

// ---- Functions of all workers -------------------------------------------------------------------

GW_FUNCTION(late_forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), now.weights[gw_rpc_self(s).rank]));
}

GW_FUNCTION(late_gradient, GW_POOL, "") {
    gw_tensor *g = gw_grad_find(s, now.weights[gw_rpc_self(s).rank]);
    return gw_value_of(g ? gw_item(s, gw_sum(s, g)) : 0.0);
}

static gw_tensor *forward(gw_scope *s, gw_tensor *x) {
    for (int i = GATED; i <= OTHER && gw_ok(s); i++)
        x = gw_tensor_of(s, gw_rpc_sync(s, i, "late_forward", x));
    return gw_sum(s, x);
}

static void walk(gw_scope *s) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F64, SIZE));
    gw_tensor *loss = forward(s, x);
    double local = 0;
    if (now.unsynchronised) {
        s->not_synchronised = true;
        gw_backward(s, loss, .retain_graph = true);
        s->not_synchronised = false;
        local = gw_float_of(s, gw_rpc_sync(s, GATED, "late_gradient"));
        if (gw_ok(s)) assert_true(local == SIZE * 3 && now.begun == 0);
    }
    if (now.event == DEADLINE && !now.is_fresh) gw_scope_set_timeout(s, 5000);
    gw_backward(s, loss);
    if (!gw_ok(s)) return;
    double passes = now.unsynchronised ? 2 : 1;
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == passes * SIZE * 2 * 3);
    double got = gw_float_of(s, gw_rpc_sync(s, GATED, "late_gradient"));
    double other = gw_float_of(s, gw_rpc_sync(s, OTHER, "late_gradient"));
    if (gw_ok(s)) assert_true(got == passes * SIZE * 3 * FACTOR && other == passes * SIZE * 2);
}

GW_FUNCTION(late_train, GW_POOL, "") {
    (void)a;
    gw_scope *step = gw_scope_open(s);
    walk(step);
    gw_scope_close_up(step);
    return gw_none();
}

static void pause_for(gw_scope *s, int64_t ns) {
    env *e = s->env;
    waiter wait = { .what = "the test" };
    env_enter(e);
    env_wait(e, &wait, env_now_ns(e) + ns);
    env_leave(e);
}

static void pause_until(gw_scope *s, int64_t when_s) {
    int64_t left = when_s * SIM_SECOND - sim_now_ns(now.sim);
    if (left > 0) pause_for(s, left);
}

static void enter_barrier(gw_scope *root) {
    int count;
    const gw_worker *all = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, all, count);
}

static bool is_present(int rank) {
    return now.agents[rank] && !sim_is_crashed(now.sim, rank);
}

// The gated worker's part, while it waits for its gate without a thread.
static bool is_reducing(void) {
    if (!is_present(GATED)) return false;
    list_each(l, &graphs_of(now.agents[GATED])->passes) {
        const distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->state == DISTRIBUTED_PASS_REDUCING && !x->runs) return true;
    }
    return false;
}

static void expect_nothing_left(int rank) {
    const graphs *g = graphs_of(now.agents[rank]);
    if (g->sends.count || !list_is_empty(&g->passes) || !list_is_empty(&g->ending))
        fail_msg("worker %d has %zu sends, passes: %s", rank, g->sends.count,
                 list_is_empty(&g->passes) ? "none" : "some");
}

// ---- The events ---------------------------------------------------------------------------------

static void watch(sim *s, void *arg) {
    if (!is_reducing()) {
        assert_true(sim_at_decision(s, sim_count(s).decisions + 1, watch, arg));
        return;
    }
    now.has_reduced = true;
    if (now.event == INITIATOR_LOST) sim_crash(s, 0);
    if (now.event == OTHER_LOST) sim_crash(s, OTHER);
    if (now.event == ITSELF_LOST) sim_crash(s, GATED);
}

static void direct(sim *s, void *context) {
    (void)context;
    now.sim = s;
    assert_true(sim_at_decision(s, 1, watch, NULL));
}

// The only worker thread slot is free while the part waits.
static void call_meanwhile(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    assert_true(gw_float_of(s, gw_rpc_sync(s, GATED, "late_gradient")) == 0 && gw_ok(s));
    gw_scope_close_up(s);
}

static void observe(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_future *f = gw_rpc_async(s, 0, "late_train");
    while (!now.has_reduced && !gw_future_done(f)) pause_for(root, 1000 * 1000);
    if (now.event == ANSWERED && now.has_reduced && !gw_future_done(f)) call_meanwhile(root);
    if (now.event == CANCELLED) gw_cancel(s, f);
    gw_wait(s, f);
    now.observed = gw_scope_close(s);
}

static void answer_in_time(gw_scope *root) {
    bool first = !now.is_fresh;
    while (now.ended < now.begun || !now.begun) {
        if (sim_now_ns(now.sim) > 55 * SIM_SECOND) return;
        if (is_reducing() && now.gradient && (!first || now.event <= REFUSED)) {
            give_answer();
            return;
        }
        pause_for(root, 1000 * 1000);
    }
}

static void train_anew(gw_scope *root, int rank) {
    if (rank == OBSERVER) {
        gw_scope *s = gw_scope_open(root);
        walk(s);
        gw_error error = gw_scope_close(s);
        assert_string_equal(error.text, "");
    }
    if (rank == GATED) answer_in_time(root);
}

static void play(gw_scope *root, int rank, void *context) {
    (void)context;
    now.agents[rank] = root->agent;
    now.weights[rank] = gw_requires_grad(root, gw_full(root, GW_F64, rank + 1.0, SIZE));
    if (rank == GATED) open_gate(root);
    enter_barrier(root);
    if (rank == OBSERVER) observe(root);
    if (rank == GATED) answer_in_time(root);
    pause_until(root, 30);
    expect_nothing_left(rank);
    if (rank == GATED) {
        // An unused answer belongs to the gate.
        if (now.event > REFUSED) late_release(now.answer);
        handle_release(now.gradient);
        now.gradient = NULL;
        assert_int_equal(now.begun, 1);
        assert_int_equal(now.ended, 1);
        assert_int_equal(now.failed, now.event != ANSWERED);
        now.begun = now.ended = 0;
        now.is_fresh = true;
    }
    now.unsynchronised = false;
    pause_until(root, 31);
    if (is_present(GATED) && is_present(OTHER)) train_anew(root, rank);
    pause_until(root, 60);
    expect_nothing_left(rank);
}

static void expect_error(event e) {
    static const gw_status statuses[] = {
        [ANSWERED] = GW_OK,
        [REFUSED] = GW_DISCONNECTED,
        [DEADLINE] = GW_TIMEOUT,
        [CANCELLED] = GW_CANCELLED,
        [INITIATOR_LOST] = GW_DISCONNECTED,
        [OTHER_LOST] = GW_DISCONNECTED,
        [ITSELF_LOST] = GW_DISCONNECTED,
    };
    static const char *const texts[] = {
        [ANSWERED] = "",         [REFUSED] = "w1: backward: w7 is gone",
        [DEADLINE] = "w1",       [CANCELLED] = "",
        [INITIATOR_LOST] = "w0", [OTHER_LOST] = "w2",
        [ITSELF_LOST] = "w1",
    };
    if (now.observed.status != statuses[e] || !strstr(now.observed.text, texts[e]))
        fail_msg("%s: %s, \"%s\"", event_names[e], gw_status_name(now.observed.status),
                 now.observed.text);
    if (e == ANSWERED || e == ITSELF_LOST) return;
    if (!now.reported.status) fail_msg("%s: the gate gets no reason", event_names[e]);
}

static void run_event(event e, bool unsynchronised) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++) {
        memset(&now, 0, sizeof now);
        now.event = e;
        now.unsynchronised = unsynchronised;
        testing_note("seed %llu, %s", (unsigned long long)seed, event_names[e]);
        cluster_options options = { .world_size = WORKERS,
                                    .threads = 1,
                                    .fails = true,
                                    .direct = direct,
                                    .network = sim_varied(seed, 0) };
        cluster_outcome o = cluster_run(seed, options, play, NULL);
        for (int i = 0; i < WORKERS; i++)
            if (!o.crashed[i]) assert_string_equal(o.errors[i].text, "");
        assert_true(now.has_reduced);
        expect_error(e);
    }
}

static void a_part_completes_when_its_gate_has_answered(void **state) {
    (void)state;
    run_event(ANSWERED, false);
    run_event(ANSWERED, true);
}

static void a_failure_of_a_gate_fails_the_pass(void **state) {
    (void)state;
    run_event(REFUSED, false);
}

static void an_abort_ends_a_gated_part(void **state) {
    (void)state;
    run_event(DEADLINE, false);
    run_event(CANCELLED, false);
}

static void a_loss_ends_a_gated_part(void **state) {
    (void)state;
    run_event(INITIATOR_LOST, false);
    run_event(OTHER_LOST, false);
    run_event(ITSELF_LOST, false);
}

GW_TESTS(passes_late_sim, a_part_completes_when_its_gate_has_answered,
         a_failure_of_a_gate_fails_the_pass, an_abort_ends_a_gated_part, a_loss_ends_a_gated_part);
