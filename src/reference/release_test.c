#include "reference/references.h"

#include "testing/cluster.h"
#include "testing/testing.h"

GW_FUNCTION(release_make, GW_INLINE, "int") {
    return gw_value_of(gw_arg_int(s, a, 0));
}

GW_FUNCTION(release_owned, GW_INLINE) {
    return gw_value_of(gw_rref_owned_count(s));
}

static void drop_many(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    enum { MANY = 1000 };
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < MANY; i++) gw_remote(s, 1, "release_make", i);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "release_owned")), MANY);
    uint64_t before = agent_member(root->agent, 1)->sent;
    gw_scope_close_up(s);
    cluster_sleep_ms(root, 50);
    // All in a few messages.
    assert_in_range(agent_member(root->agent, 1)->sent - before, 1, MANY / 10);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "release_owned")), 0);
}

static void it_gives_back_many_at_once(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, drop_many, NULL);
}

static message *make_release(agent *a, uint32_t count, uint64_t id, uint64_t fork) {
    message *m = agent_message_on_loop(a, KIND_RELEASE);
    bytes_put_u32(&m->head, count);
    bytes_put_u64(&m->head, id);
    bytes_put_u64(&m->head, fork);
    return m;
}

static void release_for_others(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    agent *a = s->agent;
    gw_rref *r = gw_remote(s, 1, "release_make", 5);
    gw_to_here_value(s, r);
    env_enter(a->env);
    // Releases by workers 1 and 2 of a fork that this one holds change nothing. A message that is
    // cut off is an error.
    entry *e = entry_open_on_loop(a, id_of(2, 500));
    assert_int_equal(entry_add_holder_on_loop(e, id_of(2, 501), 2, NULL), GW_OK);
    gw_error error;
    message *m = make_release(a, 1, id_of(2, 500), id_of(2, 501));
    assert_int_equal(release_received_on_loop(a, 1, m, &error), GW_OK);
    assert_int_equal(e->forks.count, 1);
    m = make_release(a, 1, id_of(2, 9), id_of(2, 501));
    assert_int_equal(release_received_on_loop(a, 2, m, &error), GW_OK);
    m = make_release(a, 2, id_of(2, 500), id_of(2, 501));
    assert_int_equal(release_received_on_loop(a, 2, m, &error), GW_PROTOCOL);
    assert_int_equal(e->forks.count, 0);
    entry_release_on_loop(e);
    env_leave(a->env);
}

static void a_release_counts_only_forks_of_its_sender(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, release_for_others, NULL);
}

GW_TESTS(reference_release, it_gives_back_many_at_once, a_release_counts_only_forks_of_its_sender);
