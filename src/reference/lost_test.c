#include "reference/references.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire/membership.h>

GW_FUNCTION(lost_make, GW_INLINE, "int") {
    return gw_value_of(gw_arg_int(s, a, 0));
}

typedef struct lost_shelf {
    gw_scope *own;
    gw_rref *held;
} lost_shelf;

GW_CLASS(lost_shelf, lost_shelf_open);

static void lost_shelf_open(gw_scope *own, lost_shelf *self, const gw_args *a) {
    (void)a;
    self->own = own;
}

GW_METHOD(lost_shelf, put, GW_INLINE, "rref") {
    gw_set(self->own, &self->held, gw_arg_rref(s, a, 0));
    return gw_none();
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

enum { MANY = 2000 };

static void lose(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        cluster_sleep_ms(root, 2000);  // and ends without shutdown
        return;
    }
    if (rank != 0) return;
    agent *a = root->agent;
    gw_scope *s = gw_scope_open(root);
    gw_rref *theirs = gw_remote(s, 1, "lost_make", 3), *other = gw_remote(s, 2, "lost_make", 4);
    gw_rref *shelves[MANY];
    for (int i = 0; i < MANY; i++) {
        shelves[i] = gw_remote(s, 1, "lost_shelf");
        gw_rpc_async(s, shelves[i], "put", gw_rref_open(s, i));
        gw_rpc_async(s, gw_remote(s, 1, "lost_shelf"), "put", other);
    }
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, theirs)), 3);
    assert_int_equal(reference_peer_of(a, 1)->fork_count, MANY);
    cluster_sleep_ms(s, 4000);
    // Its forks are released, and references to its values are lost, with the reason.
    assert_int_equal(reference_peer_of(a, 1)->fork_count, 0);
    gw_to_here_value(s, theirs);
    expect(s, GW_REF_LOST, "w1, the owner of the referenced value, is gone: w1 (rank 1) has left");
    gw_rpc_sync(s, shelves[0], "put", other);
    assert_int_equal(gw_scope_error(s)->status, GW_REF_LOST);
    gw_scope_clear(s);
    gw_rpc_sync(s, 2, "lost_make", gw_by_value(s, theirs));
    expect(s, GW_REF_LOST,
           "w2: lost_make: w1, the owner of the referenced value, is gone: w1 (rank 1) has left");
    gw_rpc_sync(s, 2, "lost_make", theirs);
    assert_int_equal(gw_scope_error(s)->status, GW_REF_LOST);
    gw_scope_clear(s);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, other)), 4);
    gw_scope_close_up(s);
}

static void a_lost_worker_releases_its_forks_and_fails_its_references(void **state) {
    (void)state;
    cluster_outcome o =
        cluster_run(1, (cluster_options){ .world_size = 3, .leaves = { [1] = true } }, lose, NULL);
    assert_int_equal(o.owned[0], 0);
    assert_int_equal(o.owned[2], 0);
}

// The owner ends while its value is being sent as an argument, and while a worker waits for it.
GW_FUNCTION(lost_never, GW_INLINE) {
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

static void lose_waiting(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 1) cluster_sleep_ms(root, 2000);
    if (rank == 2) gw_to_here_value(root, gw_remote(root, 1, "lost_make", 1));
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *never = gw_remote(s, 1, "lost_never");
    gw_future *f = gw_rpc_async(s, 2, "lost_make", gw_by_value(s, never));
    gw_future *here = gw_to_here_async(s, never);
    gw_wait(s, f);
    expect(s, GW_REF_LOST,
           "w2: lost_make: w1, the owner of the referenced value, is gone: w1 (rank 1) has left");
    gw_wait(s, here);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_fails_waits_for_values_of_a_lost_worker(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3, .leaves = { [1] = true } }, lose_waiting,
                NULL);
}

GW_TESTS(reference_lost, a_lost_worker_releases_its_forks_and_fails_its_references,
         it_fails_waits_for_values_of_a_lost_worker);
