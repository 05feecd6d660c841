#include "call/promise.h"

#include "call/protocol.h"
#include "future/future.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

// Promised values that arrive before the requests that mention them.

static gw_status receive(agent *a, int from, uint64_t promise, gw_error *error) {
    message *m = agent_message_on_loop(a, KIND_PROMISE_VALUE);
    assert_non_null(m);
    reply_write(&m->head, &(reply_fixed){ .id = promise });
    bytes_put_u8(&m->head, GW_INT);
    bytes_put_u64(&m->head, 5);
    return promise_received_on_loop(a, from, m, error);
}

static gw_future *mention(agent *a, int from, uint64_t promise) {
    bytes b = { 0 };
    gw_error error;
    gw_handle *f = NULL;
    bytes_put_u32(&b, 2);
    bytes_put_u64(&b, agent_member(a, 2)->worker.incarnation);
    bytes_put_u64(&b, promise);
    bytes_put_u8(&b, 0);
    reader in = reader_of(b.data, b.size);
    assert_int_equal(promise_attachment.read(a, from, &in, &f, &error), GW_OK);
    bytes_fini(&b);
    return (gw_future *)(void *)f;
}

static void run_body(gw_scope *s, int rank, void *context) {
    if (rank != 0) return;
    agent *a = s->agent;
    env_enter(a->env);
    ((void (*)(agent *))context)(a);
    env_leave(a->env);
}

static void run(void (*body)(agent *a)) {
    cluster_run(1, (cluster_options){ .world_size = 3 }, run_body, (void *)body);
}

static void keep_unexpected(agent *a) {
    gw_error error;
    call_peer *sender = call_peer_of(a, 2);
    for (uint64_t i = 1; i <= 3; i++) assert_int_equal(receive(a, 2, id_of(1, i), &error), GW_OK);
    assert_int_equal(sender->unexpected_count, 3);
    assert_true(sender->unexpected_bytes > 0);
    gw_future *f = mention(a, 1, id_of(1, 2));
    assert_non_null(future_result(f));
    assert_int_equal(sender->unexpected_count, 2);
    future_release_on_loop(f);
    // Late: its request has been seen.
    assert_int_equal(receive(a, 2, id_of(1, 2), &error), GW_OK);
    assert_int_equal(sender->unexpected_count, 2);
    promises_lost_on_loop(a, 1);
    assert_int_equal(sender->unexpected_count, 0);
    assert_int_equal(sender->unexpected_bytes, 0);
    assert_int_equal(calls_of(a)->promises.count, 0);
}

static void it_keeps_values_that_arrive_before_their_requests(void **state) {
    (void)state;
    run(keep_unexpected);
}

static void keep_too_many(agent *a) {
    gw_error error;
    call_peer *sender = call_peer_of(a, 2);
    sender->unexpected_count = LIMIT_UNEXPECTED_PROMISES;
    assert_int_equal(receive(a, 2, id_of(1, 1), &error), GW_LIMIT);
    assert_string_equal(error.text,
                        "too many values have arrived before the requests that need them: 65536");
    sender->unexpected_count = 0;
    assert_int_equal(calls_of(a)->promises.count, 0);
}

static void the_count_kept_of_one_sender_is_limited(void **state) {
    (void)state;
    run(keep_too_many);
}

static void keep_too_large(agent *a) {
    gw_error error;
    call_peer *sender = call_peer_of(a, 2);
    sender->unexpected_bytes = LIMIT_UNEXPECTED_PROMISE_BYTES;
    assert_int_equal(receive(a, 2, id_of(1, 1), &error), GW_OK);
    assert_int_equal(sender->unexpected_bytes, LIMIT_UNEXPECTED_PROMISE_BYTES);
    gw_future *f = mention(a, 1, id_of(1, 1));
    assert_int_equal(result_error(future_result(f))->status, GW_OVERLOADED);
    future_release_on_loop(f);
    assert_int_equal(sender->unexpected_bytes, LIMIT_UNEXPECTED_PROMISE_BYTES);
    sender->unexpected_bytes = 0;
}

static void the_bytes_kept_of_one_sender_are_limited(void **state) {
    (void)state;
    run(keep_too_large);
}

GW_TESTS(call_promise, it_keeps_values_that_arrive_before_their_requests,
         the_count_kept_of_one_sender_is_limited, the_bytes_kept_of_one_sender_are_limited);
