#include "reference/references.h"

#include "testing/cluster.h"
#include "testing/testing.h"

// Two workers; the test calls the functions of the first one's agent.
static void run_body(gw_scope *s, int rank, void *context) {
    if (rank != 0) return;
    agent *a = s->agent;
    env_enter(a->env);
    ((void (*)(agent *))context)(a);
    env_leave(a->env);
}

static void run(void (*body)(agent *a)) {
    cluster_run(1, (cluster_options){ .world_size = 2 }, run_body, (void *)body);
}

static void list_forks(agent *a) {
    gw_error error;
    entry *e = entry_open_on_loop(a, id_of(1, 500));
    assert_non_null(e);
    assert_ptr_equal(entry_of_on_loop(a, id_of(1, 500)), e);
    assert_int_equal(entry_add_holder_on_loop(e, id_of(1, 501), 1, &error), GW_OK);
    assert_int_equal(entry_add_holder_on_loop(e, id_of(1, 501), 1, &error), GW_OK);
    assert_int_equal(reference_peer_of(a, 1)->fork_count, 1);
    assert_int_equal(entry_add_holder_on_loop(e, id_of(1, 501), 0, &error), GW_PROTOCOL);
    // A worker cannot release another worker's fork.
    entry_remove_holder_on_loop(e, id_of(1, 501), 0);
    assert_int_equal(e->forks.count, 1);
    entry_release_on_loop(e);
    assert_ptr_equal(entry_of_on_loop(a, id_of(1, 500)), e);
    entry_remove_holder_on_loop(e, id_of(1, 501), 1);
    assert_null(entry_of_on_loop(a, id_of(1, 500)));
    assert_int_equal(reference_peer_of(a, 1)->fork_count, 0);
}

static void it_keeps_an_entry_while_a_fork_is_listed(void **state) {
    (void)state;
    run(list_forks);
}

static void list_too_many(agent *a) {
    gw_error error;
    entry *e = entry_open_on_loop(a, id_of(1, 500));
    reference_peer_of(a, 1)->fork_count = LIMIT_FORKS_PER_PEER;
    assert_int_equal(entry_add_holder_on_loop(e, id_of(1, 501), 1, &error), GW_LIMIT);
    assert_string_equal(error.text,
                        "w1 has 1000000 references to values of w0, and cannot have more");
    reference_peer_of(a, 1)->fork_count = 0;
    entry_release_on_loop(e);
    assert_int_equal(references_of(a)->entry_count, 0);
}

static void it_lists_a_million_of_one_holder(void **state) {
    (void)state;
    run(list_too_many);
}

static void find_unlisted(agent *a) {
    gw_error error;
    entry *e = entry_open_on_loop(a, id_of(1, 500)), *found;
    assert_int_equal(entry_find_on_loop(a, 1, id_of(1, 500), id_of(1, 501), &found, &error),
                     GW_REF_LOST);
    assert_int_equal(entry_find_on_loop(a, 1, id_of(1, 9), id_of(1, 501), &found, &error),
                     GW_REF_LOST);
    assert_int_equal(entry_add_holder_on_loop(e, id_of(1, 501), 1, &error), GW_OK);
    assert_int_equal(entry_find_on_loop(a, 1, id_of(1, 500), id_of(1, 501), &found, &error), GW_OK);
    assert_ptr_equal(found, e);
    entry_release_on_loop(found);
    entry_remove_holder_on_loop(e, id_of(1, 501), 1);
    entry_release_on_loop(e);
}

static void only_holders_find_it(void **state) {
    (void)state;
    run(find_unlisted);
}

static void accept_odd_ids(agent *a) {
    gw_error error;
    entry *e;
    uint64_t id = id_of(1, 1000), fork = id_of(1, 1001);
    assert_int_equal(entry_accept_on_loop(a, 1, id_of(2, 1), fork, &e, &error), GW_PROTOCOL);
    assert_int_equal(entry_accept_on_loop(a, 1, id, id_of(0, 1), &e, &error), GW_PROTOCOL);
    assert_int_equal(entry_accept_on_loop(a, 1, id, fork, &e, &error), GW_OK);
    entry_make_on_loop(e, result_of_error(&(gw_error){ .status = GW_REMOTE }), NULL);
    entry_release_on_loop(e);
    assert_int_equal(e->forks.count, 1);
    entry_remove_holder_on_loop(e, fork, 1);
    // The id of a value that is gone cannot be used again.
    assert_int_equal(entry_accept_on_loop(a, 1, id, fork, &e, &error), GW_PROTOCOL);
}

static void it_accepts_each_creation_once(void **state) {
    (void)state;
    run(accept_odd_ids);
}

GW_TESTS(reference_entry, it_keeps_an_entry_while_a_fork_is_listed,
         it_lists_a_million_of_one_holder, only_holders_find_it, it_accepts_each_creation_once);
