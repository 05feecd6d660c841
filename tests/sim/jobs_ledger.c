// The ledger: what bodies did and what their callers got, and whether both can be true.
#include "jobs.h"

#include "base/scope.h"
#include "agent/agent.h"
#include "testing/testing.h"

jobs *jobs_now;

static bool is_ghost(gw_scope *s) {
    return sim_is_ghost(((agent *)s->agent)->env);
}

static int node_of(gw_scope *s) {
    return ((agent *)s->agent)->rank;
}

// ---- Calls --------------------------------------------------------------------------------------

int64_t jobs_new_call(void) {
    jobs *j = jobs_now;
    assert_true(j->call_count < JOBS_CALLS_MAX - 1);
    return (int64_t)++j->call_count;
}

void jobs_body_runs(gw_scope *s, int64_t number) {
    if (is_ghost(s)) return;
    jobs_call *c = &jobs_now->calls[number];
    if (c->not_delivered) fail_msg("call %d runs, after it was said not to", (int)number);
    if (++c->runs > 1) fail_msg("call %d runs again", (int)number);
}

bool jobs_has_ends(void) {
    sim_counts c = sim_count(jobs_now->sim);
    return jobs_now->left_count + c.crashes + c.stops + c.partitions > 0;
}

// For a few messages after a member has joined, others may not know it, or not count it.
static bool joins_when_one_crashes(const jobs *j, const jobs_worker *w) {
    if (!w->joined) return !w->ended;
    for (int i = 0; i < j->worker_count; i++) {
        int64_t crashed_ns = sim_crashed_ns(j->sim, i);
        if (crashed_ns != ENV_NEVER && w->joined_ns + 20 * j->delay_max_ns > crashed_ns)
            return true;
    }
    return false;
}

// If half of a group ends at once, workers that were joining by its founder included, the others
// cannot tell that from having lost the quorum: they may go on or not.
bool jobs_has_lost_most(void) {
    const jobs *j = jobs_now;
    int gone = 0;
    for (int i = 0; i < j->worker_count; i++)
        gone += j->workers[i].ended || sim_is_ghost(j->workers[i].env) ||
                joins_when_one_crashes(j, &j->workers[i]);
    return j->kind == JOBS_GROUP && 2 * gone >= j->worker_count;
}

static bool is_explained(gw_status status) {
    sim_counts c = sim_count(jobs_now->sim);
    // A rank that is passed on as a number may come before its receiver knows the member.
    if (status == GW_NOT_FOUND && jobs_now->kind == JOBS_GROUP) return true;
    if (status == GW_DISCONNECTED || status == GW_REF_LOST || status == GW_NOT_FOUND)
        return jobs_has_ends();
    if (status == GW_WRONG_STATE)
        return jobs_now->left_count > 0;  // a leaving worker takes no calls
    return status == GW_FENCED && (c.stops + c.partitions > 0 || jobs_has_lost_most());
}

static void complain(gw_scope *s, int64_t call, const char *why) {
    const gw_error *e = gw_scope_error(s);
    fail_msg("worker %d, call %d, %s: %s, outcome %d: %s", node_of(s), (int)call, why,
             gw_status_name(e->status), (int)e->outcome, e->text);
}

static void check_outcome(gw_scope *s, int64_t call) {
    jobs_call *c = &jobs_now->calls[call];
    switch (gw_scope_error(s)->outcome) {
    case GW_NOT_DELIVERED:
        c->not_delivered = true;
        if (c->runs) complain(s, call, "which has run");
        break;
    case GW_RAN_AND_FAILED:
        if (!c->runs) complain(s, call, "which has not run");
        break;
    case GW_MAY_HAVE_RUN:
    case GW_OUTCOME_NONE: break;
    }
}

bool jobs_call_ends(gw_scope *s, int64_t call) {
    if (is_ghost(s)) {
        gw_scope_clear(s);
        return false;
    }
    if (gw_ok(s)) {
        if (jobs_now->calls[call].runs != 1) complain(s, call, "has a value but has not run once");
        return true;
    }
    check_outcome(s, call);
    if (!is_explained(gw_scope_error(s)->status)) complain(s, call, "for no reason");
    gw_scope_clear(s);
    return false;
}

bool jobs_use_ends(gw_scope *s) {
    if (gw_ok(s)) return !is_ghost(s);
    if (!is_ghost(s) && !is_explained(gw_scope_error(s)->status)) complain(s, 0, "for no reason");
    gw_scope_clear(s);
    return false;
}

void jobs_expect(gw_scope *s, int64_t call, gw_status status) {
    if (!is_ghost(s)) {
        gw_status got = gw_scope_error(s)->status;
        if (got == GW_OK) complain(s, call, "should have failed");
        if (call) check_outcome(s, call);
        if (got != status && !is_explained(got)) complain(s, call, "for another reason");
    }
    gw_scope_clear(s);
}

// ---- Things -------------------------------------------------------------------------------------

int jobs_open_thing(gw_scope *s) {
    jobs *j = jobs_now;
    assert_true(j->thing_count < JOBS_THINGS_MAX - 1);
    j->things[++j->thing_count] = (jobs_thing){ .node = node_of(s), .opens = 1 };
    return j->thing_count;
}

void jobs_close_thing(gw_scope *s, int thing) {
    jobs_thing *t = &jobs_now->things[thing];
    (void)s;
    if (t->opens != 1 || t->closes) fail_msg("thing %d is closed again", thing);
    t->closes++;
}

void jobs_use_thing(gw_scope *s, int thing) {
    const jobs_thing *t = &jobs_now->things[thing];
    if (t->closes) fail_msg("thing %d is used after it was closed", thing);
    if (t->node != node_of(s)) fail_msg("thing %d is used on another worker", thing);
}

void jobs_check_ledger(void) {
    const jobs *j = jobs_now;
    for (int i = 1; i <= j->thing_count; i++) {
        const jobs_thing *t = &j->things[i];
        if (t->closes != 1)
            fail_msg("thing %d of worker %d was closed %d times", i, t->node, t->closes);
    }
}

// ---- Time ---------------------------------------------------------------------------------------

// A call makes a few nested ones, and waits behind some others for a place in the pool. Each
// connection that breaks costs a back-off; a lost frame the time until the loss is noticed; a crash
// T_close; a silent worker T_dead, or until it is heard.
int64_t jobs_patience_ns(sim_counts before) {
    const jobs *j = jobs_now;
    sim_counts now = sim_count(j->sim);
    int64_t breaks = (int64_t)(now.cuts - before.cuts + 2 * (now.frames_lost - before.frames_lost));
    int64_t patience = 3 * SIM_SECOND + 300 * j->delay_max_ns + breaks * SIM_SECOND;
    patience += (int64_t)now.crashes * (SIM_SECOND + 100 * j->delay_max_ns);
    if (j->kind >= JOBS_STOPS && now.stops + now.partitions > 0) patience += 60 * SIM_SECOND;
    // A worker that never heard a quorum waits 24 s longer before it takes itself for cut off.
    for (int i = 0; j->kind == JOBS_GROUP && i < j->worker_count; i++)
        if (j->workers[i].joined && joins_when_one_crashes(j, &j->workers[i]))
            return patience + 24 * SIM_SECOND;
    return patience;
}
