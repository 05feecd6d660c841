#include "reference/references.h"

#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

GW_FUNCTION(fetch_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 0), 2));
}

// Makes |other| worker believe that so many values are under way to this one.
GW_FUNCTION(fetch_count_for_caller, GW_INLINE, "int") {
    agent *here = s->agent;
    env_enter(here->env);
    reference_peer_of(here, gw_arg_caller(a).rank)->fetch_count = (uint32_t)gw_arg_int(s, a, 0);
    env_leave(here->env);
    return gw_none();
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void fetch_unlisted(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *r = gw_remote(s, 1, "fetch_make", 4);
    assert_int_equal(gw_item_int(s, gw_select(s, gw_to_here(s, r), 0, 0)), 4);
    uint64_t fork = r->fork;
    r->fork = id_of(0, 99999);
    gw_to_here(s, r);
    expect(s, GW_REF_LOST,
           "w1: the owner does not have the reference: it was released, or never existed");
    gw_wait(s, gw_rpc_async(s, 2, "fetch_make", gw_by_value(s, r)));
    expect(s, GW_REF_LOST,
           "w2: fetch_make: w1: the owner does not have the reference: it was released, or never "
           "existed");
    r->fork = fork;
    assert_int_equal(gw_item_int(s, gw_select(s, gw_to_here(s, r), 0, 0)), 4);
}

static void it_fails_at_once_for_a_worker_that_is_no_holder(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, fetch_unlisted, NULL);
}

static void fetch_too_much(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *r = gw_remote(s, 1, "fetch_make", 4);
    gw_rpc_sync(s, 1, "fetch_count_for_caller", LIMIT_FETCHES_PER_PEER);
    gw_to_here(s, r);
    expect(s, GW_OVERLOADED, "w1: 65536 values that w0 has requested are still waiting to be sent");
    gw_rpc_sync(s, 2, "fetch_make", gw_by_value(s, r));
    expect(s, GW_OVERLOADED,
           "w2: fetch_make: w1: 65536 values that w0 has requested are still waiting to be sent");
    gw_rpc_sync(s, 1, "fetch_count_for_caller", 0);
    assert_int_equal(gw_item_int(s, gw_select(s, gw_to_here(s, r), 0, 0)), 4);
}

static void the_number_of_concurrent_fetches_of_a_worker_is_limited(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, fetch_too_much, NULL);
}

GW_FUNCTION(fetch_make_late, GW_INLINE) {
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

GW_FUNCTION(fetch_list, GW_INLINE) {
    agent *here = s->agent;
    env_enter(here->env);
    int64_t count = 0;
    list_each(l, &references_of(here)->fetches) count++;
    env_leave(here->env);
    return gw_value_of(count);
}

static void fetch_for_a_while(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, 1, "fetch_make_late");
    gw_scope *soon = gw_scope_open(s);
    gw_scope_set_timeout(soon, 100);
    gw_future *f = gw_to_here_async(soon, r);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "fetch_list")), 1);
    gw_wait(soon, f);
    assert_int_equal(gw_scope_close(soon).status, GW_TIMEOUT);
    // Its own time is over there no later than a message later.
    gw_scope *later = gw_scope_open(s);
    gw_scope_set_timeout(later, 100);
    gw_wait(later, gw_future_open(later));
    assert_int_equal(gw_scope_close(later).status, GW_TIMEOUT);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "fetch_list")), 0);
    gw_scope_close_up(s);
}

static void it_ends_at_the_owner_with_its_deadline(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .timeout_ms = 2000 }, fetch_for_a_while,
                NULL);
}

GW_TESTS(reference_fetch, it_ends_at_the_owner_with_its_deadline,
         it_fails_at_once_for_a_worker_that_is_no_holder,
         the_number_of_concurrent_fetches_of_a_worker_is_limited);
