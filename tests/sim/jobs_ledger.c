// The ledger: the runs of bodies and the results of their callers, and whether both can be true.
#include "jobs.h"

#include "base/scope.h"
#include "base/value.h"
#include "agent/state/agent.h"
#include "membership/membership.h"
#include "reference/references.h"
#include "testing/blame.h"
#include "testing/testing.h"

#include <stdlib.h>

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
    if (c->not_delivered)
        fail_msg("call %d runs, after it was reported as not delivered", (int)number);
    if (++c->runs > 1) fail_msg("call %d runs again", (int)number);
}

bool jobs_has_ends(void) {
    sim_counts c = sim_count(jobs_now->sim);
    return jobs_now->left_count + c.crashes + c.stops + c.partitions > 0;
}

// For a few messages after a member has joined, others may not have it in their views, or not count it.
static bool joins_when_one_crashes(const jobs *j, const jobs_worker *w) {
    if (!w->joined) return !w->ended;
    for (int i = 0; i < j->worker_count; i++) {
        int64_t crashed_ns = sim_crashed_ns(j->sim, i);
        if (crashed_ns != ENV_NEVER && w->joined_ns + 20 * j->delay_max_ns > crashed_ns)
            return true;
    }
    return false;
}

// Workers that join need the store, whose host is node 0.
bool jobs_lacks_store(void) {
    const sim *s = jobs_now->sim;
    return sim_is_crashed(s, 0) || sim_away_ns(s, 0) >= MEMBERSHIP_SUSPECT_NS;
}

// If half of a group ends at once, including workers that were joining by its founder, the others cannot distinguish
// that from the loss of the quorum: they may continue or not.
bool jobs_has_lost_most(void) {
    const jobs *j = jobs_now;
    int gone = 0;
    for (int i = 0; i < j->worker_count; i++)
        gone += j->workers[i].ended || sim_is_ghost(j->workers[i].env) ||
                joins_when_one_crashes(j, &j->workers[i]);
    return j->kind == JOBS_GROUP && 2 * gone >= j->worker_count;
}

// ---- Workers of a call --------------------------------------------------------------------------

enum { ALL_NODES = (1 << JOBS_NODES_MAX) - 1 };

static uint16_t node_bit(int64_t rank) {
    for (int i = 0; i < jobs_now->worker_count; i++) {
        const jobs_worker *w = &jobs_now->workers[i];
        if (jobs_now->kind != JOBS_GROUP ? i == rank : w->joined && w->rank == rank)
            return (uint16_t)(1 << i);
    }
    return ALL_NODES;  // it joins now
}

// Adds |nodes| to |call|, and to all calls that use its result.
static void add_nodes(int64_t call, uint16_t nodes) {
    jobs_call *c = &jobs_now->calls[call];
    if (!call || (c->nodes | nodes) == c->nodes) return;
    c->nodes |= nodes;
    for (int i = 0; i < (int)(sizeof c->users / sizeof c->users[0]); i++)
        add_nodes(c->users[i], nodes);
}

void jobs_depend(int64_t user, int64_t call) {
    jobs_call *c = &jobs_now->calls[call];
    int i = 0;
    while (c->users[i]) i++;
    assert_true(i < (int)(sizeof c->users / sizeof c->users[0]));
    c->users[i] = user;
    add_nodes(user, c->nodes);
}

void jobs_follow(int64_t call, int64_t earlier) {
    add_nodes(call, jobs_now->calls[earlier].nodes);
}

static uint16_t owners_in(gw_value v) {
    uint16_t nodes = 0;
    if (v.kind == GW_RREF) return node_bit(v.as.rref->owner);
    for (int i = 0; v.kind == GW_LIST && i < v.as.list->count; i++)
        nodes |= owners_in(v.as.list->items[i]);
    return nodes;
}

static uint16_t nodes_of_target(gw_target to) {
    if (to.rref) return node_bit(to.rref->owner);
    if (!to.name) return node_bit(to.rank);
    // A target that could not be found, in a scope that has failed, has no name.
    return to.name[0] ? (uint16_t)(1 << strtol(to.name + 1, NULL, 10)) : 0;
}

gw_values jobs_involve(gw_scope *s, gw_target to, gw_values args) {
    uint16_t nodes = node_bit(node_of(s)) | nodes_of_target(to);
    for (int i = 1; i < args.count; i++) nodes |= owners_in(args.items[i]);
    add_nodes(args.items[0].as.integer, nodes);
    return args;
}

// ---- Late workers -------------------------------------------------------------------------------

static bool is_late(const jobs_worker *w) {
    return w->joined ? w->was_late : jobs_lacks_store();
}

// Workers that need the store, whose host was away, to join. If the others are as many as can continue without them,
// another one without contact to the host cannot determine whether they have continued.
static uint64_t late_ones(void) {
    const jobs *j = jobs_now;
    uint64_t late = 0;
    int there = 0;
    for (int i = 0; i < j->worker_count; i++) {
        if (is_late(&j->workers[i]))
            late |= UINT64_C(1) << i;
        else
            there++;
    }
    return 2 * there >= j->worker_count ? late : 0;
}

// ---- Errors -------------------------------------------------------------------------------------

static blame_facts facts(void) {
    const jobs *j = jobs_now;
    blame_facts f = { .sim = j->sim,
                      .count = j->worker_count,
                      .late = late_ones(),
                      .lost_most = jobs_has_lost_most() };
    for (int i = 0; i < j->worker_count; i++) {
        const jobs_worker *w = &j->workers[i];
        bool cannot_join = !w->joined && jobs_lacks_store();
        f.ended |= (uint64_t)(w->is_going || w->ended || cannot_join) << i;
    }
    return f;
}

bool jobs_explains(const gw_error *error) {
    blame_facts f = facts();
    return blame_explains(error, &f, ALL_NODES);
}

// |call| is 0 for errors of other operations.
static bool is_explained(const gw_error *error, int64_t call) {
    // A rank that is passed as a number may arrive before its receiver has the member in its view.
    if (error->status == GW_NOT_FOUND) return jobs_now->kind == JOBS_GROUP;
    blame_facts f = facts();
    uint16_t nodes = jobs_now->calls[call].nodes ? jobs_now->calls[call].nodes : ALL_NODES;
    // A body may continue for a while on a worker that leaves.
    if (error->status == GW_WRONG_STATE) return nodes & f.ended;
    return blame_explains(error, &f, nodes);
}

static void complain(gw_scope *s, int64_t call, const char *why) {
    const gw_error *e = gw_scope_error(s);
    fail_msg("worker %d, call %d through %x, %s: %s, outcome %d: %s", node_of(s), (int)call,
             (unsigned)jobs_now->calls[call].nodes, why, gw_status_name(e->status), (int)e->outcome,
             e->text);
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
    if (!is_explained(gw_scope_error(s), call)) complain(s, call, "for no reason");
    gw_scope_clear(s);
    return false;
}

bool jobs_use_ends(gw_scope *s) {
    if (gw_ok(s)) return !is_ghost(s);
    if (!is_ghost(s) && !is_explained(gw_scope_error(s), 0)) complain(s, 0, "for no reason");
    gw_scope_clear(s);
    return false;
}

void jobs_expect(gw_scope *s, int64_t call, gw_status status) {
    if (!is_ghost(s)) {
        gw_status got = gw_scope_error(s)->status;
        if (got == GW_OK) complain(s, call, "should have failed");
        if (call) check_outcome(s, call);
        if (got != status && !is_explained(gw_scope_error(s), call))
            complain(s, call, "for another reason");
    }
    gw_scope_clear(s);
}

// ---- Objects ------------------------------------------------------------------------------------

int jobs_open_thing(gw_scope *s) {
    jobs *j = jobs_now;
    assert_true(j->thing_count < JOBS_THINGS_MAX - 1);
    j->things[++j->thing_count] = (jobs_thing){ .node = node_of(s), .opens = 1 };
    return j->thing_count;
}

void jobs_close_thing(gw_scope *s, int thing) {
    jobs_thing *t = &jobs_now->things[thing];
    (void)s;
    if (t->opens != 1 || t->closes) fail_msg("object %d is closed again", thing);
    t->closes++;
}

void jobs_use_thing(gw_scope *s, int thing) {
    const jobs_thing *t = &jobs_now->things[thing];
    if (t->closes) fail_msg("object %d is used after it was closed", thing);
    if (t->node != node_of(s)) fail_msg("object %d is used on another worker", thing);
}

void jobs_check_ledger(void) {
    const jobs *j = jobs_now;
    for (int i = 1; i <= j->thing_count; i++) {
        const jobs_thing *t = &j->things[i];
        if (t->closes != 1)
            fail_msg("object %d of worker %d was closed %d times", i, t->node, t->closes);
    }
}

// ---- Time ---------------------------------------------------------------------------------------

// A call makes a few nested ones, and waits behind some others for a worker thread slot. Each connection that breaks
// costs a back-off; a lost frame the time until the loss is detected; a crash T_close; a silent worker T_dead, or until
// it sends again.
int64_t jobs_patience_ns(sim_counts before) {
    const jobs *j = jobs_now;
    sim_counts now = sim_count(j->sim);
    int64_t breaks = (int64_t)(now.cuts - before.cuts + 2 * (now.frames_lost - before.frames_lost));
    int64_t patience = 3 * SIM_SECOND + 300 * j->delay_max_ns + breaks * SIM_SECOND;
    patience += (int64_t)now.crashes * (SIM_SECOND + 100 * j->delay_max_ns);
    if (j->kind >= JOBS_STOPS && now.stops + now.partitions > 0) patience += 60 * SIM_SECOND;
    // A worker that never had a quorum waits 24 s longer before it is cut off.
    int64_t start_ns = MEMBERSHIP_GRACE_NS + MEMBERSHIP_SUSPECT_NS;
    for (int i = 0; j->kind == JOBS_GROUP && i < j->worker_count; i++)
        if (j->workers[i].joined && joins_when_one_crashes(j, &j->workers[i]))
            return patience + start_ns;
    return patience;
}
