#include "testing/blame.h"

#include "base/status.h"
#include "testing/testing.h"

#include <stdio.h>

// ---- Faults ------------------------------------------------------------------------------

typedef struct scene {
    sim *sim;
    blame_facts facts;
} scene;

static bool explains(const scene *c, gw_loss how, int node, int64_t involved) {
    char name[16];
    gw_error e = { .status = GW_DISCONNECTED };
    snprintf(name, sizeof name, "w%d", node);
    error_set_lost(&e, how, 7, 1, name);
    return blame_explains(&e, &c->facts, involved);
}

static void wait(void *arg) {
    scene *c = arg;
    env *e = sim_env(c->sim, 0);
    waiter w = { .what = "time to pass" };
    env_enter(e);
    env_wait(e, &w, env_now_ns(e) + SIM_SECOND);
    sim_crash(c->sim, 1);
    sim_stop(c->sim, 2);
    assert_true(explains(c, GW_LOSS_ENDED, 1, BLAME_ANY));
    assert_false(explains(c, GW_LOSS_SILENT, 2, BLAME_ANY));
    env_wait(e, &w, env_now_ns(e) + 5 * SIM_SECOND);
    env_leave(e);
}

static void an_error_is_true_once_its_worker_was_hit(void **state) {
    (void)state;
    scene c = { .sim = sim_open(1, (sim_options){ 0 }) };
    c.facts = (blame_facts){ .sim = c.sim, .count = 5 };
    assert_non_null(sim_env(c.sim, 1));
    assert_true(sim_spawn(c.sim, 0, wait, &c));
    assert_false(explains(&c, GW_LOSS_ENDED, 1, BLAME_ANY));
    assert_true(sim_run(c.sim, 60 * SIM_SECOND));
    assert_true(explains(&c, GW_LOSS_SILENT, 2, BLAME_ANY));
    // Not of one that nothing was done to, that the operation does not go through, or for another
    // reason than there is.
    assert_false(explains(&c, GW_LOSS_SILENT, 3, BLAME_ANY));
    assert_false(explains(&c, GW_LOSS_SILENT, 2, 1 << 0 | 1 << 3));
    assert_false(explains(&c, GW_LOSS_LEFT, 2, BLAME_ANY));
    c.facts.ended = 1 << 2;
    assert_true(explains(&c, GW_LOSS_LEFT, 2, BLAME_ANY));
    sim_close(c.sim);
}

static void an_error_that_names_no_lost_worker_is_not_explained(void **state) {
    (void)state;
    scene c = { .sim = sim_open(1, (sim_options){ 0 }) };
    c.facts = (blame_facts){ .sim = c.sim, .count = 3, .lost_most = true };
    gw_error e;
    error_set(&e, GW_DISCONNECTED, "w1 (rank 1) is gone: its process has ended");
    assert_false(blame_explains(&e, &c.facts, BLAME_ANY));
    assert_true(explains(&c, GW_LOSS_ENDED, 1, BLAME_ANY));
    sim_close(c.sim);
}

static void any_worker_may_be_cut_off_when_half_of_them_are_away(void **state) {
    (void)state;
    scene c = { .sim = sim_open(1, (sim_options){ 0 }) };
    c.facts = (blame_facts){ .sim = c.sim, .count = 3 };
    assert_non_null(sim_env(c.sim, 1));
    assert_true(sim_spawn(c.sim, 0, wait, &c));
    assert_true(sim_run(c.sim, 60 * SIM_SECOND));
    assert_true(explains(&c, GW_LOSS_CUT_OFF, 0, BLAME_ANY));
    sim_close(c.sim);
}

GW_TESTS(testing_blame, an_error_that_names_no_lost_worker_is_not_explained,
         an_error_is_true_once_its_worker_was_hit,
         any_worker_may_be_cut_off_when_half_of_them_are_away);
