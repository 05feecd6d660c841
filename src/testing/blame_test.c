#include "testing/blame.h"

#include "testing/testing.h"

#include <stdio.h>

static void expect(const char *text, blame_reason reason, int node) {
    blame b = blame_in(text);
    if (b.reason != reason || b.node != node)
        fail_msg("\"%s\" blames %d for %d", text, b.node, (int)b.reason);
}

static void it_reads_who_is_gone_and_why(void **state) {
    (void)state;
    expect("w1: w2 (rank 2) is gone: its process has ended (a: refused)", BLAME_ENDED, 2);
    expect("w1: f: w12 (rank 0) was silent to w0 for 6.2 s", BLAME_SILENT, 12);
    expect("w3, who owned what the reference names, is gone: w3 (rank 1) has left", BLAME_LEFT, 3);
    expect("w4: f: w0 was cut off from most of the others for 7.5 s", BLAME_CUT_OFF, 0);
    expect("group \"a\": w0: w3 has lost all others before they could say", BLAME_ALONE, 3);
    expect("w4 is leaving the job", BLAME_LEFT, 4);
    expect("w1: f: no reply within 5 ms", BLAME_NONE, -1);
    expect("somebody has left", BLAME_NONE, -1);
}

static void it_blames_whom_the_sentence_ends_with(void **state) {
    (void)state;
    expect("w1: f: w2 (rank 2) has left: w3 (rank 3) was silent to w2 for 6.3 s", BLAME_SILENT, 3);
}

// ---- What was done ------------------------------------------------------------------------------

typedef struct scene {
    sim *sim;
    blame_facts facts;
} scene;

static gw_error lost(const char *text) {
    gw_error e = { .status = GW_DISCONNECTED };
    snprintf(e.text, sizeof e.text, "%s", text);
    return e;
}

static bool explains(const scene *c, const char *text, int64_t involved) {
    gw_error e = lost(text);
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
    assert_true(explains(c, "w1 (rank 1) is gone: its process has ended", BLAME_EVERYBODY));
    assert_false(explains(c, "w2 (rank 2) was silent to w0 for 6.2 s", BLAME_EVERYBODY));
    env_wait(e, &w, env_now_ns(e) + 5 * SIM_SECOND);
    env_leave(e);
}

static void an_error_is_true_once_its_worker_was_hit(void **state) {
    (void)state;
    scene c = { .sim = sim_open(1, (sim_options){ 0 }) };
    c.facts = (blame_facts){ .sim = c.sim, .count = 5 };
    assert_non_null(sim_env(c.sim, 1));
    assert_true(sim_spawn(c.sim, 0, wait, &c));
    assert_false(explains(&c, "w1 (rank 1) is gone: its process has ended", BLAME_EVERYBODY));
    assert_true(sim_run(c.sim, 60 * SIM_SECOND));
    assert_true(explains(&c, "w2 (rank 2) was silent to w0 for 6.2 s", BLAME_EVERYBODY));
    // Not of one that nothing was done to, that the operation does not go through, or for another
    // reason than there is.
    assert_false(explains(&c, "w3 (rank 3) was silent to w0 for 6.2 s", BLAME_EVERYBODY));
    assert_false(explains(&c, "w2 (rank 2) was silent to w0 for 6.2 s", 1 << 0 | 1 << 3));
    assert_false(explains(&c, "w2 (rank 2) has left", BLAME_EVERYBODY));
    c.facts.ended = 1 << 2;
    assert_true(explains(&c, "w2 (rank 2) has left", BLAME_EVERYBODY));
    sim_close(c.sim);
}

static void any_worker_may_be_cut_off_when_half_of_them_are_away(void **state) {
    (void)state;
    scene c = { .sim = sim_open(1, (sim_options){ 0 }) };
    c.facts = (blame_facts){ .sim = c.sim, .count = 3 };
    assert_non_null(sim_env(c.sim, 1));
    assert_true(sim_spawn(c.sim, 0, wait, &c));
    assert_true(sim_run(c.sim, 60 * SIM_SECOND));
    assert_true(explains(&c, "w0 was cut off from most of the others", BLAME_EVERYBODY));
    sim_close(c.sim);
}

GW_TESTS(testing_blame, it_reads_who_is_gone_and_why, it_blames_whom_the_sentence_ends_with,
         an_error_is_true_once_its_worker_was_hit,
         any_worker_may_be_cut_off_when_half_of_them_are_away);
