#include "reference/references.h"

#include "testing/cluster.h"
#include "testing/testing.h"

GW_FUNCTION(fork_make, GW_INLINE, "int") {
    return gw_value_of(gw_arg_int(s, a, 0));
}

GW_FUNCTION(fork_read, GW_POOL, "rref") {
    return gw_to_here_value(s, gw_arg_rref(s, a, 0));
}

GW_FUNCTION(fork_count_for, GW_INLINE, "int, int") {
    agent *here = s->agent;
    env_enter(here->env);
    reference_peer_of(here, (int)gw_arg_int(s, a, 0))->fork_count = (uint32_t)gw_arg_int(s, a, 1);
    env_leave(here->env);
    return gw_none();
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void refuse(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *good = gw_remote(s, 1, "fork_make", 4);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, good)), 4);
    gw_rpc_sync(s, 1, "fork_count_for", 0, LIMIT_FORKS_PER_PEER);
    gw_rpc_sync(s, 1, "fork_count_for", 2, LIMIT_FORKS_PER_PEER);
    // by its maker
    gw_rref *one_more = gw_remote(s, 1, "fork_make", 5);
    gw_rpc_sync(s, 1, "fork_make", 0);
    gw_to_here_value(s, one_more);
    expect(s, GW_LIMIT, "w1: this worker has 1000000 references to values of w1 already");
    assert_false(gw_rref_is_confirmed(one_more));
    // by the worker that the reference is sent to, which gets the error at its use, or before
    gw_rpc_sync(s, 2, "fork_read", good);
    assert_true(gw_scope_error(s)->status == GW_LIMIT || gw_scope_error(s)->status == GW_REF_LOST);
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "fork_count_for", 0, 1);
    gw_rpc_sync(s, 1, "fork_count_for", 2, 0);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "fork_read", good)), 4);
}

static void a_refused_fork_contains_the_reason(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = 3 }, refuse, NULL);
    for (int rank = 0; rank < 3; rank++) assert_int_equal(o.owned[rank], 0);
}

// A fork request for a value that existed and is gone, as when the parent has ended meanwhile.
static void request_late(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    agent *a = s->agent;
    gw_rref *gone = gw_remote(s, 1, "fork_make", 4);
    gw_to_here_value(s, gone);
    env_enter(a->env);
    gw_rref *late = rref_open_on_loop(a, 1, NULL);
    late->id = gone->id;
    late->fork = id_of(0, ++references_of(a)->last_id);
    late->state = FORK_PENDING;
    env_leave(a->env);
    gw_drop(s, gone);
    cluster_sleep_ms(s, 100);
    env_enter(a->env);
    assert_int_equal(fork_request_on_loop(late), GW_OK);
    env_leave(a->env);
    gw_rpc_sync(s, 1, "fork_make", 0);
    gw_to_here_value(s, late);
    expect(s, GW_REF_LOST,
           "the owner does not have the reference: it was released, or never existed");
    handle_release(late);
}

static void a_fork_of_a_released_reference_is_refused(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = 2 }, request_late, NULL);
    assert_int_equal(o.owned[1], 0);
}

GW_TESTS(reference_fork, a_refused_fork_contains_the_reason,
         a_fork_of_a_released_reference_is_refused);
