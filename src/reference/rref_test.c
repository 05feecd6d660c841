#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

GW_FUNCTION(rref_make, GW_INLINE, "int") {
    return gw_value_of(gw_arg_int(s, a, 0));
}

static void query(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *mine = gw_rref_open(s, 3), *theirs = gw_remote(s, 1, "rref_make", 4);
    assert_string_equal(gw_rref_owner_name(s, mine), "w0");
    assert_string_equal(gw_rref_owner_name(s, theirs), "w1");
    assert_int_equal(gw_rref_owner(s, theirs).rank, 1);
    assert_true(gw_rref_is_owner(mine));
    assert_true(gw_rref_is_confirmed(mine));
    assert_false(gw_rref_is_owner(theirs));
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, theirs)), 4);
    assert_true(gw_rref_is_confirmed(theirs));
    assert_int_equal(gw_int_of(s, gw_rref_local_value(s, mine)), 3);
    gw_rref_local_value(s, theirs);
    assert_string_equal(gw_scope_error(s)->text, "the reference is to a value of w1, not of w0");
    gw_scope_clear(s);
}

static void its_owner_can_be_queried(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, query, NULL);
}

static void use_poison(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_fail(s, GW_REMOTE, "before");
    gw_rref *poison = gw_remote(s, 1, "rref_make", 4);
    gw_scope_clear(s);
    assert_false(gw_rref_is_owner(poison));
    assert_false(gw_rref_is_confirmed(poison));
    assert_string_equal(gw_rref_owner_name(s, poison), "");
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    gw_wait(s, gw_by_value(s, poison));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "gw.add", poison, 1);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
}

static void a_reference_of_a_failed_scope_is_unusable(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, use_poison, NULL);
}

static void use_late(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_rref *theirs = gw_remote(s, 1 - rank, "rref_make", 4), *mine = gw_rref_open(s, 3);
    gw_to_here_value(s, theirs);
    gw_rpc_shutdown(s);
    gw_to_here_value(s, theirs);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    gw_rref_local_value(s, mine);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    gw_by_value(s, theirs);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
}

static void a_reference_is_unusable_after_shutdown(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, use_late, NULL);
}

GW_TESTS(reference_rref, its_owner_can_be_queried, a_reference_of_a_failed_scope_is_unusable,
         a_reference_is_unusable_after_shutdown);
