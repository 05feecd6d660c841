// Operations that a member has begun with others end when the member is lost: each step is a valid message, and no
// message that it requires ever follows.
#include "call/protocol.h"
#include "distributed/autograd/distributed_pass.h"
#include "reference/references.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

GW_FUNCTION(begun_never, GW_INLINE) {
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

GW_FUNCTION(begun_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(begun_fetch, GW_POOL, "rref") {
    return gw_to_here_value(s, gw_arg_rref(s, a, 0));
}

GW_FUNCTION(begun_negate, GW_POOL, "rref") {
    return gw_rpc_sync(s, 0, "gw.neg", gw_arg_rref(s, a, 0));
}

GW_FUNCTION(begun_two, GW_INLINE, "any, any") {
    return gw_arg(s, a, 0);
}

// An id of the third worker, which is correct, that it could have made, but has not.
#define NEVER_MADE id_of(2, 1000)

typedef struct begun {
    const char *what;
    void (*begin)(gw_scope *s);
} begun;

// ---- Messages -----------------------------------------------------------------------------------

static void post(gw_scope *s, message *m) {
    assert_false(m->head.failed);
    agent *a = s->agent;
    env_enter(a->env);
    agent_send_on_loop(a, 0, m, true, NULL);
    env_leave(a->env);
}

static void send_two(gw_scope *s, uint8_t kind, uint64_t x, uint64_t y) {
    message *m = message_open(kind);
    bytes_put_u64(&m->head, x);
    bytes_put_u64(&m->head, y);
    post(s, m);
}

static void request_fork(gw_scope *s) {
    send_two(s, KIND_FORK_REQUEST, NEVER_MADE, id_of(1, 77));
}

static void send_request(gw_scope *s, request_fixed f, const char *function) {
    message *m = message_open(KIND_REQUEST);
    f.call = 1000;
    f.depth = 1;
    request_write(&m->head, &f, function, NULL, 0);
    post(s, m);
}

// With a reference to a value of the third worker, made by the first.
static void pass_reference(gw_scope *s, const char *function) {
    message *m = message_open(KIND_REQUEST);
    request_write(&m->head, &(request_fixed){ .call = 1000, .depth = 1 }, function, NULL, 1);
    bytes_put_u8(&m->head, GW_RREF);
    bytes_put_u32(&m->head, 0);
    uint32_t at = (uint32_t)m->head.size;
    memcpy(m->head.data + REQUEST_ATTACHMENTS_FIELD, &at, sizeof at);
    bytes_put_u32(&m->head, 1);
    bytes_put_u8(&m->head, reference_attachment.type);
    bytes_put_u32(&m->head, 2);
    bytes_put_u64(&m->head, id_of(0, 1000));
    bytes_put_u64(&m->head, id_of(1, 77));
    bytes_put_u8(&m->head, 0);
    post(s, m);
}

static void put_gradient(message *m, uint8_t flags) {
    bytes_put_u32(&m->head, 2);  // the initiator
    bytes_put_u64(&m->head, 5);
    for (int i = 0; i < 3; i++) bytes_put_u64(&m->head, 0);
    bytes_put_u8(&m->head, flags);
}

static void end_gradient(gw_scope *s, message *m) {
    bytes_put_u64(&m->head, 1);
    bytes_put_u32(&m->head, 0);
    post(s, m);
}

// ---- Operations ---------------------------------------------------------------------------------

static void fetch(gw_scope *s) {
    request_fork(s);
    message *m = message_open(KIND_FETCH);
    const uint64_t fields[] = { 1000, NEVER_MADE, id_of(1, 77), 0 };
    for (int i = 0; i < 4; i++) bytes_put_u64(&m->head, fields[i]);
    post(s, m);
}

static void forward_value(gw_scope *s) {
    request_fork(s);
    message *m = message_open(KIND_FORWARD_VALUE);
    bytes_put_u64(&m->head, NEVER_MADE);
    bytes_put_u64(&m->head, id_of(1, 77));
    bytes_put_u32(&m->head, 2);
    bytes_put_u64(&m->head, id_of(1, 1000));
    post(s, m);
}

static void call_method(gw_scope *s) {
    request_fork(s);
    send_request(s, (request_fixed){ .target = NEVER_MADE, .target_fork = id_of(1, 77) }, "put");
}

static void make(gw_scope *s) {
    send_request(s, (request_fixed){ .result = id_of(1, 1000), .result_fork = id_of(1, 1001) },
                 "begun_never");
}

static void fetch_being_made(gw_scope *s) {
    gw_rref *r = gw_remote(s, 0, "begun_never");
    gw_to_here_async(s, r);
}

static void call_and_forward(gw_scope *s) {
    send_request(s, (request_fixed){ 0 }, "begun_never");
    message *m = message_open(KIND_FORWARD);
    bytes_put_u64(&m->head, 1000);
    bytes_put_u32(&m->head, 2);
    bytes_put_u64(&m->head, id_of(1, 1000));
    post(s, m);
}

static void send_promised_value(gw_scope *s) {
    message *m = message_open(KIND_PROMISE_VALUE);
    reply_write(&m->head, &(reply_fixed){ .id = NEVER_MADE });
    bytes_put_u8(&m->head, 0);
    post(s, m);
}

static void promise_of_another(gw_scope *s) {
    gw_rpc_async(s, 0, "begun_echo", gw_rpc_async(s, 2, "begun_never"));
}

static void send_gradient(gw_scope *s) {
    message *m = message_open(KIND_GRADIENT);
    put_gradient(m, 0);
    end_gradient(s, m);
}

static void send_marked_gradient(gw_scope *s) {
    message *m = message_open(KIND_GRADIENT);
    put_gradient(m, DISTRIBUTED_PASS_MARKS);
    bytes_put_u32(&m->head, 2);
    for (uint32_t slot = 0; slot < 2; slot++) {
        bytes_put_u32(&m->head, 0);
        bytes_put_u32(&m->head, slot);
        bytes_put_u64(&m->head, 1);
    }
    end_gradient(s, m);
}

static void enter_collective(gw_scope *s) {
    const uint32_t ranks[] = { 0, 1, 2 };
    gw_rpc_async(s, 0, "gw.barrier", gw_value_of_bytes(ranks, sizeof ranks), 1, -1, gw_none());
}

static void query_a_name(gw_scope *s) {
    gw_rpc_async(s, 0, "gw.named", "nowhere");
}

static void fetch_by_another(gw_scope *s) {
    pass_reference(s, "begun_fetch");
}

static void send_to_another(gw_scope *s) {
    pass_reference(s, "begun_negate");
}

// Answers, accepts and acknowledges requests of others, whether there are any or not.
static void answer_everything(gw_scope *s) {
    for (uint64_t n = 1; n < 20; n++) {
        message *m = message_open(KIND_REPLY);
        reply_write(&m->head, &(reply_fixed){ .id = n, .forwarded = (uint32_t)n % 3 });
        bytes_put_u8(&m->head, 0);
        post(s, m);
        send_two(s, KIND_ACCEPTED, id_of(0, n), id_of(0, n + 1));
        m = message_open(KIND_FORK_ACK);
        bytes_put_u64(&m->head, id_of(0, n));
        bytes_put_u8(&m->head, (uint8_t)(n % 5));
        post(s, m);
        m = message_open(KIND_CHILD_ACCEPT);
        bytes_put_u64(&m->head, id_of(0, n));
        post(s, m);
    }
}

static void announce_forks(gw_scope *s) {
    send_two(s, KIND_ACCEPTED, NEVER_MADE, id_of(0, 5));
    send_two(s, KIND_FORK_REQUEST, NEVER_MADE, id_of(2, 77));
    send_two(s, KIND_FORK_REQUEST, id_of(2, 1001), id_of(1, 78));
}

static const begun all[] = {
    { "a fetch of a value that is not made", fetch },
    { "the value of that for another worker", forward_value },
    { "a method of it", call_method },
    { "a value that is not made in time", make },
    { "a fetch of this value", fetch_being_made },
    { "a call whose result another worker is promised", call_and_forward },
    { "a promised value that no request mentions", send_promised_value },
    { "an argument that another worker does not send", promise_of_another },
    { "a gradient of a pass of another worker", send_gradient },
    { "the same with marks", send_marked_gradient },
    { "a barrier", enter_collective },
    { "a name that no worker sets", query_a_name },
    { "forks of a value that is not made", announce_forks },
    { "a reference to that, which another worker fetches", fetch_by_another },
    { "the same as an argument", send_to_another },
    { "answers that are not true", answer_everything },
};

// ---- The job ------------------------------------------------------------------------------------

static void begin_and_break(gw_scope *root, int rank, void *context) {
    const begun *b = context;
    gw_scope *s = gw_scope_open(root);
    if (rank == 1) {
        b->begin(s);
        gw_rpc_sync(s, 0, "begun_echo", 1);  // all of it has arrived
        post(s, message_open(100));
    } else {
        // The others wait for values of the lost worker and of each other, too.
        gw_future *lost = gw_member_lost(s, (const gw_worker[]){ gw_rpc_worker(s, 1) }, 1);
        gw_future *promised = gw_rpc_async(s, 1, "begun_never");
        gw_rpc_async(s, 2 - rank, "begun_two", promised, gw_remote(s, 1, "begun_never"));
        gw_wait(s, lost);
    }
    gw_scope_close_up(s);
    gw_scope_clear(root);
}

static void begin_with_seed(uint64_t seed, void *context) {
    const begun *b = context;
    cluster_outcome o = cluster_run(
        seed, (cluster_options){ .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT, .fails = true },
        begin_and_break, (void *)b);
    if (o.errors[0].status || o.errors[2].status)
        fail_msg("%s: \"%s\", \"%s\"", b->what, o.errors[0].text, o.errors[2].text);
}

static void operations_begun_by_a_lost_member_end(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        testing_note("%s", all[i].what);
        testing_for_seeds(10, begin_with_seed, (void *)&all[i]);
    }
}

GW_TESTS(begun, operations_begun_by_a_lost_member_end);
