// A fork request that arrives after the value was freed: the maker lives, and the parent of the fork has crashed. The
// owner answers at once that the reference is lost, and does not wait for a value that will never be made again.
#include "base/map.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/oracle.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { MAKER, OWNER, PARENT, CHILD, WORKERS };

typedef struct heir {
    sim *sim;
    uint64_t seed;
    agent *owner;
    int called, answered;
    gw_status status;
} heir;

static heir *now;  // one simulation at a time

GW_FUNCTION(tombstone_make, GW_INLINE) {
    (void)a;
    return gw_value_of(gw_full(s, GW_I64, 5, 2));
}

GW_FUNCTION(tombstone_read, GW_POOL, "rref") {
    now->called++;
    gw_scope *inner = gw_scope_open(s);
    gw_tensor *x = gw_to_here(inner, gw_arg_rref(s, a, 0));
    if (gw_ok(inner)) assert_int_equal(gw_item_int(inner, gw_select(inner, x, 0, 0)), 5);
    now->status = gw_scope_close(inner).status;
    now->answered++;
    return gw_none();
}

static void crash_parent(sim *s, void *arg) {
    (void)arg;
    sim_crash(s, PARENT);
}

static void keep_sim(sim *s, void *context) {
    heir *h = context;
    h->sim = s;
}

// The maker drops its reference while the parent still has one; the parent does not wait for the
// child.
GW_FUNCTION(tombstone_share, GW_POOL, "rref") {
    gw_rpc_async(s, CHILD, "tombstone_read", gw_arg_rref(s, a, 0));
    int64_t soon_ns = (int64_t)(hash_u64(now->seed) % 3000) * 1000;
    assert_true(sim_at(now->sim, sim_now_ns(now->sim) + soon_ns, crash_parent, NULL));
    return gw_none();
}

// The job continues, so that nothing ends because the job does. Soon no worker needs the value any more, so the owner
// keeps nothing, not even for a value that does not exist.
static void continue_job(gw_scope *root, const heir *h) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 10000);
    gw_wait(s, gw_future_open(s));
    gw_error late = gw_scope_close(s);
    assert_int_equal(late.status, GW_TIMEOUT);
    assert_int_equal(h->answered, h->called);
    oracle_check_empty(h->owner);
}

static void play(gw_scope *root, int rank, void *context) {
    if (rank == OWNER) now->owner = root->agent;
    if (rank != MAKER) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, OWNER, "tombstone_make");
    gw_to_here(s, r);
    gw_future *f = gw_rpc_async(s, PARENT, "tombstone_share", r);
    gw_drop(s, r);
    gw_wait(s, f);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    continue_job(root, context);
}

static void inherit(uint64_t seed, void *context) {
    (void)context;
    heir h = { .seed = seed };
    now = &h;
    cluster_options o = {
        .world_size = WORKERS, .network = sim_varied(seed, 0), .fails = true, .direct = keep_sim
    };
    cluster_outcome outcome = cluster_run(seed, o, play, &h);
    assert_int_equal(h.answered, h.called);
    // The value, a lost reference, or the end of the caller; not a timeout.
    assert_true(h.status == GW_OK || h.status == GW_REF_LOST || h.status == GW_CANCELLED);
    assert_true(outcome.took_ns < 30 * SIM_SECOND);
    assert_int_equal(outcome.owned[OWNER], 0);
}

static void a_fork_of_a_freed_value_is_refused(void **state) {
    (void)state;
    testing_for_seeds(500, inherit, NULL);
}

GW_TESTS(tombstone_sim, a_fork_of_a_freed_value_is_refused);
