// Passes end although a worker has no memory to report their end.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <string.h>

// ---- No memory for messages ---------------------------------------------------------------------

static int failing_count;  // allocations of a small message's bytes that fail from now on

static int fail_small_messages(size_t size) {
    return size == AGENT_SMALL_BYTES && failing_count > 0 && failing_count--;
}

// In one process: both workers'. The agent has a message in reserve.
static void run_out_of_messages(agent *a, int count) {
    failing_count = count;
    mem_fail_hook = fail_small_messages;
    env_enter(a->env);
    message *spare = agent_message_on_loop(a, KIND_PASS_DONE);
    env_leave(a->env);
    assert_non_null(spare);
    message_release(spare);
    assert_null(a->spare);
}

typedef struct deferred_layer {
    gw_tensor *w;
} deferred_layer;

GW_CLASS(deferred_layer, open_layer);

static bool hook_fails;

static gw_tensor *run_out(gw_scope *s, gw_tensor *grad, void *context) {
    run_out_of_messages(context, 12);
    if (hook_fails) gw_fail(s, GW_LIMIT, "no more of this");
    return grad;
}

static void open_layer(gw_scope *own, deferred_layer *self, const gw_args *a) {
    self->w = gw_requires_grad(own, gw_full(own, GW_F32, 2.0, 3));
    if (gw_arg_bool(own, a, 0)) gw_register_hook(own, self->w, run_out, own->agent);
}

GW_METHOD(deferred_layer, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(deferred_layer, grad, GW_INLINE, "") {
    return gw_value_of(gw_grad(s, self->w));
}

GW_FUNCTION(deferred_pass_count, GW_INLINE) {
    int64_t count = 0;
    agent *here = s->agent;
    env_enter(here->env);
    list_each(l, &graphs_of(here)->passes) count++;
    env_leave(here->env);
    return gw_value_of(count);
}

static gw_tensor *loss_of(gw_scope *s, gw_rref *layer) {
    return gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", gw_ones(s, GW_F32, 3))));
}

static void run(cluster_main *main) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_options o = { .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT };
        cluster_outcome outcome = cluster_run(seed, o, main, NULL);
        mem_fail_hook = NULL;
        assert_true(outcome.took_ns < 20 * SIM_SECOND);
    }
}

// ---- Passes -------------------------------------------------------------------------------------

static void finish_without_memory(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(s, "w1", "deferred_layer", (bool)true);
    gw_backward(s, loss_of(s, layer));
    assert_true(gw_ok(s));
    assert_int_equal(failing_count, 0);
    gw_tensor *g = gw_tensor_of(s, gw_rpc_sync(s, layer, "grad"));
    assert_true(gw_item(s, gw_sum(s, g)) == 3);
}

static void a_finished_participant_reports_once_it_has_memory(void **state) {
    (void)state;
    hook_fails = false;
    run(finish_without_memory);
}

static void fail_without_memory(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(s, "w1", "deferred_layer", (bool)true);
    gw_backward(s, loss_of(s, layer));
    assert_int_equal(failing_count, 0);
    assert_string_equal(gw_scope_error(s)->text, "backward: w1: this worker has ended the backward "
                                                 "pass, and has no memory to report the reason");
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
}

static void a_failed_participant_reports_once_it_has_memory(void **state) {
    (void)state;
    hook_fails = true;
    run(fail_without_memory);
}

// More reports than fit: an initiator without its report loses this worker, and waits no more.
static void report_too_much(gw_scope *s, int rank, void *context) {
    (void)context;
    agent *a = s->agent;
    if (rank == 0) return;
    run_out_of_messages(a, 1000);
    env_enter(a->env);
    for (int i = 0; i <= PASS_REPORTS_MAX; i++) {
        pass_report w = { .kind = KIND_PASS_DONE, .number = 1000 + (uint64_t)i };
        passes_report_on_loop(a, w, NULL);
    }
    env_leave(a->env);
    gw_wait(s, gw_member_lost(s, (const gw_worker[]){ gw_rpc_worker(s, 0) }, 1));
    assert_non_null(strstr(gw_scope_error(s)->text,
                           ": no memory to report the end of a backward pass to this worker"));
    gw_scope_clear(s);
    failing_count = 0;
}

static void an_unreachable_participant_is_lost(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .fails = true }, report_too_much, NULL);
    mem_fail_hook = NULL;
}

// ---- Scopes -------------------------------------------------------------------------------------

static void close_without_memory(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "deferred_layer", (bool)false);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, loss_of(s, layer));
    run_out_of_messages(root->agent, 12);
    gw_scope_close_up(s);
    while (failing_count) cluster_sleep_ms(root, 1000);
    for (int i = 0; i < 50 && gw_int_of(root, gw_rpc_sync(root, 1, "deferred_pass_count")); i++) {
    }
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "deferred_pass_count")), 0);
}

static void a_closed_scope_is_reported_once_there_is_memory(void **state) {
    (void)state;
    run(close_without_memory);
}

GW_TESTS(distributed_deferred, a_finished_participant_reports_once_it_has_memory,
         a_failed_participant_reports_once_it_has_memory, an_unreachable_participant_is_lost,
         a_closed_scope_is_reported_once_there_is_memory);
