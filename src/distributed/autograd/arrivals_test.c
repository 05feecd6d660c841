// Which gradient messages a worker accepts, and up to which limits: one member, the liar, sends
// messages that are written by hand.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <string.h>

enum { OWNER, VICTIM, LIAR, PASS = 77, MS = 1000000 };

GW_FUNCTION(arrivals_double, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), gw_full(s, GW_F32, 2.0)));
}

// ---- The liar's messages ------------------------------------------------------------------------

typedef struct claim {
    int initiator;
    uint64_t number, scope;
    passes_ended ended;
    bool has_marks;
    uint64_t marked[2];  // sends of the victim; 0: none
    uint64_t send;
} claim;

static void pass_time(agent *a) {
    waiter wait = { .what = "nothing" };
    env_enter(a->env);
    env_wait(a->env, &wait, env_now_ns(a->env) + 20 * MS);
    env_leave(a->env);
}

static void send_soon(agent *a, int to, message *m) {
    env_enter(a->env);
    agent_send_on_loop(a, to, m, true, NULL);
    env_leave(a->env);
    pass_time(a);
}

static void send_claim(gw_scope *s, claim c) {
    message *m = message_open(KIND_GRADIENT);
    encoder e = { .message = m };
    marks all = { 0 };
    for (int i = 0; i < 2; i++)
        if (c.marked[i]) assert_true(marks_add(&all, (mark){ VICTIM, 0, c.marked[i] }));
    bytes_put_u32(&m->head, (uint32_t)c.initiator);
    bytes_put_u64(&m->head, c.number);
    bytes_put_u64(&m->head, c.scope);
    bytes_put_u64(&m->head, c.ended.settled);
    bytes_put_u64(&m->head, c.ended.failed);
    bytes_put_u8(&m->head, c.has_marks ? DISTRIBUTED_PASS_MARKS : 0);
    if (c.has_marks) marks_write(&all, &m->head);
    bytes_put_u64(&m->head, c.send);
    bytes_put_u32(&m->head, 1);
    bytes_put_u32(&m->head, 0);
    assert_int_equal(encode_value(&e, gw_value_of(gw_ones(s, GW_F32, 2)), NULL), GW_OK);
    marks_fini(&all);
    send_soon(s->agent, VICTIM, m);
}

GW_FUNCTION(arrivals_send_claim, GW_POOL, "int, int, int, int, int, int, int, int") {
    claim c = { .initiator = (int)gw_arg_int(s, a, 0),
                .number = (uint64_t)gw_arg_int(s, a, 1),
                .scope = (uint64_t)gw_arg_int(s, a, 2),
                .ended.settled = (uint64_t)gw_arg_int(s, a, 3),
                .has_marks = gw_arg_int(s, a, 4),
                .marked = { (uint64_t)gw_arg_int(s, a, 5), (uint64_t)gw_arg_int(s, a, 6) },
                .send = (uint64_t)gw_arg_int(s, a, 7) };
    send_claim(s, c);
    return gw_none();
}

static void claim_at_liar(gw_scope *s, claim c) {
    gw_rpc_sync(s, LIAR, "arrivals_send_claim", c.initiator, (int64_t)c.number, (int64_t)c.scope,
                (int64_t)c.ended.settled, (int)c.has_marks, (int64_t)c.marked[0],
                (int64_t)c.marked[1], (int64_t)c.send);
    assert_true(gw_ok(s));
}

// The number of the victim's send to the liar: its second.
GW_FUNCTION(arrivals_call_victim, GW_POOL, "") {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    (void)a;
    return gw_value_of_tensor(
        gw_detach(s, gw_tensor_of(s, gw_rpc_sync(s, VICTIM, "arrivals_double", x))));
}

// ---- A pass of other workers --------------------------------------------------------------------

static gw_tensor *open_loss(gw_scope *s, gw_tensor **out_x) {
    *out_x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    return gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, VICTIM, "arrivals_double", *out_x)));
}

static void expect_gradient(gw_scope *s, gw_tensor *loss, gw_tensor *x) {
    gw_backward(s, loss);
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == 4);
    assert_true(gw_ok(s));
}

static void expect_failure(gw_scope *s, gw_tensor *loss, gw_status status, const char *text) {
    gw_backward(s, loss);
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void forge_gradient(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x, *loss = open_loss(root, &x);
    claim_at_liar(root, (claim){ .number = 1,
                                 .scope = gw_scope_id(root),
                                 .has_marks = true,
                                 .marked = { 1 },
                                 .send = 1 });
    expect_failure(root, loss, GW_WRONG_STATE,
                   "w1: this backward pass has been ended on this worker");
    expect_gradient(root, loss, x);
}

static void a_gradient_is_taken_from_its_receiver_only(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, forge_gradient, NULL);
}

static void forge_marks(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x, *loss = open_loss(root, &x);
    gw_rpc_sync(root, LIAR, "arrivals_call_victim");
    claim_at_liar(root, (claim){ .number = 1,
                                 .scope = gw_scope_id(root),
                                 .has_marks = true,
                                 .marked = { 1, 2 },
                                 .send = 2 });
    expect_failure(root, loss, GW_PROTOCOL,
                   "w1: w0 has announced a pass with another scope or other marks than before");
    expect_gradient(root, loss, x);
}

static void a_member_that_contradicts_itself_ends_the_pass(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, forge_marks, NULL);
}

static void forge_end(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x, *loss = open_loss(root, &x);
    gw_rpc_sync(root, LIAR, "arrivals_call_victim");
    for (uint64_t number = 1000; number > 900; number -= 50)
        claim_at_liar(root, (claim){ .number = number,
                                     .ended.settled = number + 25,
                                     .has_marks = true,
                                     .marked = { 1, 2 },
                                     .send = 2 });
    expect_gradient(root, loss, x);
}

// The victim's shutdown waits until its end for passes that the liar made up.
static void messages_of_other_workers_end_no_pass(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3, .fails = true }, forge_end, NULL);
}

// Acts as if the initiator had reported that all its passes are over.
GW_FUNCTION(arrivals_end_all, GW_INLINE, "") {
    agent *here = s->agent;
    (void)a;
    env_enter(here->env);
    passes_peer_of_on_loop(here, OWNER)->ended.settled = 1000;
    env_leave(here->env);
    return gw_none();
}

static void wait_in_vain(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x, *loss = open_loss(root, &x);
    gw_rpc_sync(root, VICTIM, "arrivals_end_all");
    expect_failure(root, loss, GW_TIMEOUT,
                   "no message has arrived from other workers within the timeout of a call");
}

static void a_pass_waits_no_longer_than_a_call(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = 3, .timeout_ms = 5000 },
                                    wait_in_vain, NULL);
    assert_true(o.took_ns >= 5 * SIM_SECOND);
}

// ---- Limits -------------------------------------------------------------------------------------

// Opens a pass of this worker in which the victim takes part, as if gw_backward waited for it.
static distributed_pass *open_pass(agent *a) {
    distributed_pass *x = distributed_pass_open(a, a->rank, PASS, 1);
    assert_non_null(x);
    assert_true(marks_add(&x->marks, (mark){ VICTIM, 0, 1 }));
    env_enter(a->env);
    distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_MARKED);
    list_append(&graphs_of(a)->passes, &x->link);
    env_leave(a->env);
    return x;
}

static gw_error close_pass(distributed_pass *x) {
    gw_error error = x->error;
    env_enter(x->agent->env);
    distributed_pass_unlist_on_loop(x);
    env_leave(x->agent->env);
    distributed_pass_fini(x);
    mem_free(x);
    return error;
}

static void expect_abort(gw_scope *s, claim c, gw_status status, const char *text) {
    distributed_pass *x = open_pass(s->agent);
    c.initiator = LIAR;
    c.scope = 1;
    c.number = PASS;
    send_claim(s, c);
    gw_error error = close_pass(x);
    assert_string_equal(error.text, text);
    assert_int_equal(error.status, status);
}

GW_FUNCTION(arrivals_count_unexpected, GW_INLINE, "int") {
    agent *here = s->agent;
    env_enter(here->env);
    passes_peer *p = passes_peer_of_on_loop(here, LIAR);
    uint32_t before = p->unexpected_count;
    p->unexpected_count = (uint32_t)gw_arg_int(s, a, 0);
    env_leave(here->env);
    return gw_value_of((int64_t)before);
}

static void count_unexpected(gw_scope *s, uint32_t expected, uint32_t next) {
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, VICTIM, "arrivals_count_unexpected", (int)next)),
                     expected);
}

static void send_unexpected(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != LIAR) return;
    expect_abort(root, (claim){ .send = 5 }, GW_OK, "");
    count_unexpected(root, 1, 1);
    // The marks arrive in the end, and they are of another send.
    expect_abort(root, (claim){ .send = 5, .has_marks = true, .marked = { 5 } }, GW_PROTOCOL,
                 "w1: w2 has sent a gradient that is not awaited");
    count_unexpected(root, 0, LIMIT_UNEXPECTED_GRADIENTS);
}

static void send_too_many_unexpected(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != LIAR) return;
    gw_rpc_sync(root, VICTIM, "arrivals_count_unexpected", (int)LIMIT_UNEXPECTED_GRADIENTS);
    expect_abort(
        root, (claim){ .send = 5 }, GW_OVERLOADED,
        "w1: 65536 gradients of w2, of 0 bytes, have arrived before their pass was announced");
    count_unexpected(root, LIMIT_UNEXPECTED_GRADIENTS, 0);
}

static void gradients_before_their_marks_have_a_limit(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, send_unexpected, NULL);
    cluster_run(1, (cluster_options){ .world_size = 3 }, send_too_many_unexpected, NULL);
}

static int fail_mail(size_t size) {
    return size == sizeof(distributed_pass_mail);
}

static void find_no_memory(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != LIAR) return;
    mem_fail_hook = fail_mail;
    expect_abort(root, (claim){ .send = 5 }, GW_NO_MEMORY, "w1: no memory for a gradient");
    mem_fail_hook = NULL;
    count_unexpected(root, 0, 0);
}

static void a_gradient_without_memory_fails_its_pass(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, find_no_memory, NULL);
}

// ---- Aborts -------------------------------------------------------------------------------------

static void abort_pass(agent *a, int initiator) {
    message *m = message_open(KIND_PASS_ABORT);
    gw_error why;
    error_set(&why, GW_INVALID, "for no reason");
    bytes_put_u32(&m->head, (uint32_t)initiator);
    bytes_put_u64(&m->head, PASS);
    encode_error(&m->head, &why);
    send_soon(a, initiator, m);
}

GW_FUNCTION(arrivals_abort, GW_POOL, "int") {
    abort_pass(s->agent, (int)gw_arg_int(s, a, 0));
    return gw_none();
}

static void abort_others(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    distributed_pass *x = open_pass(root->agent);
    gw_rpc_sync(root, LIAR, "arrivals_abort", OWNER);
    assert_int_equal(x->error.status, GW_OK);
    gw_rpc_sync(root, VICTIM, "arrivals_abort", OWNER);
    assert_string_equal(close_pass(x).text, "for no reason");
}

static void only_participants_abort_a_pass(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, abort_others, NULL);
}

GW_TESTS(distributed_arrivals, a_gradient_is_taken_from_its_receiver_only,
         a_member_that_contradicts_itself_ends_the_pass, messages_of_other_workers_end_no_pass,
         a_pass_waits_no_longer_than_a_call, gradients_before_their_marks_have_a_limit,
         a_gradient_without_memory_fails_its_pass, only_participants_abort_a_pass);
