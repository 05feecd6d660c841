// Two members of a group that cannot connect to each other while others receive from both: no member is declared dead,
// and what waits for the two ends 30 s after its deadline, with the names of those that have not answered (GRP-10,
// GRP-18).
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum {
    MEMBERS = 4,
    TIMEOUT_MS = 5000,
    PARTED_AT_S = 2,
    CALLS_AT_S = 3,
    LATER_S = 60,
    HEALED_AT_S = 100,
    SILENT = 2
};

static void part(sim *s, void *context) {
    (void)context;
    sim_partition(s, 0, SILENT, true, true);
}

static void heal(sim *s, void *context) {
    (void)context;
    sim_heal(s);
}

static void plan_part(sim *s, void *context) {
    assert_true(sim_at(s, PARTED_AT_S * SIM_SECOND, part, context));
    assert_true(sim_at(s, HEALED_AT_S * SIM_SECOND, heal, context));
}

static char errors[MEMBERS][GW_ERROR_TEXT_MAX];

static void keep_error(gw_scope *s, int rank) {
    gw_error error = gw_scope_close(s);
    testing_note("w%d: %s", rank, error.text);
    memcpy(errors[rank], error.text, sizeof error.text);
}

static void call(gw_scope *root, gw_group *g, int rank, bool agrees) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, TIMEOUT_MS);
    if (agrees)
        gw_group_agree(s, g, 1);
    else
        gw_barrier(s, g);
    keep_error(s, rank);
    gw_scope_clear(root);
}

// The error that breaks the group is the one of the next call.
static void call_all(gw_scope *root, int rank, void *agrees) {
    gw_group *world = gw_group_world(root);
    gw_barrier(root, world);
    assert_true(gw_ok(root));
    cluster_pause_ms(root, CALLS_AT_S * 1000);
    call(root, world, rank, agrees);
    if (agrees) return;
    cluster_pause_ms(root, LATER_S * 1000);
    call(root, world, rank, false);
}

static void run(void *agrees) {
    cluster_run(
        1,
        (cluster_options){
            .world_size = MEMBERS, .timeout_ms = TIMEOUT_MS, .direct = plan_part, .fails = true },
        call_all, agrees);
    for (int i = 0; i < MEMBERS; i++) assert_null(strstr(errors[i], "w0 does not answer w0"));
}

static void the_leader_names_members_that_do_not_answer(void **state) {
    (void)state;
    run(NULL);
    assert_non_null(strstr(errors[0], "w2 does not answer w0: collective 2 has not ended"));
}

static void the_leader_names_members_that_do_not_agree(void **state) {
    (void)state;
    static int agrees;
    run(&agrees);
    assert_non_null(strstr(errors[0], "w2 does not answer w0: agreement 1 has not ended"));
}

GW_TESTS(group_silent_sim, the_leader_names_members_that_do_not_answer,
         the_leader_names_members_that_do_not_agree);
