#include "group_walk.h"

#include "agent/state/agent.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "collective/run/run.h"
#include "testing/blame.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEMBERS_MAX = 6,
    STEPS = 10,     // in which mistakes are made
    CLEAN = 3,      // and without
    TRIES = 60,     // of steps, of one member
    CALLS_MAX = 6,  // collectives of a step
    MANY = 90,      // at times, more than may be under way
    ERRORS = 512,   // that are remembered
    GROUPS = 3,
    VALUE_BASE = 16,  // ranks in values
};

typedef enum mistake {
    NO_MISTAKE,
    IS_LATE,
    CALLS_ONE_MORE,
    LEAVES_ONE_OUT,
    SWAPS_TWO,
    OTHER_SHAPE,
    OTHER_DTYPE,
    OTHER_ROOT,
    SCOPE_FAILED,
    CANCELS,
    CANCELS_AND_GOES,
    SHORT_DEADLINE,
    MISTAKE_COUNT
} mistake;

typedef struct walk {
    uint64_t seed;
    group_walk_kind kind;
    sim *sim;
    int count;
    uint64_t begun, ended;  // nodes that have joined; that have ended by themselves, as bits
    int leaver;             // -1: no member leaves
    int leaves_at;
    bool is_slow;     // the network: no large values are sent
    int patience_ms;  // deadlines
    bool drops_out;   // programs leave a step at its first error
    struct {
        uint64_t of;  // the hash of what names the collective
        char text[GW_ERROR_TEXT_MAX];
    } errors[ERRORS];
    int error_count;
    uint64_t tags[MEMBERS_MAX]
                 [TRIES];  // hashes of the exchanges that each of a member's is part of
    int finished;
    bool
        has_ended_early;  // of members that have called unequally often, one waits when another is in shutdown
    group_walk_outcome outcome;
} walk;

typedef struct participant {
    walk *walk;
    gw_scope *root;
    int rank;
    gw_group *groups[GROUPS];
    int clean;  // steps without an error, of those without mistakes
    bool has_rested;
    bool is_over;  // its world is broken
} participant;

// ---- Choices ------------------------------------------------------------------------------------

// The same on all members.
static uint64_t choose(const walk *w, int step, int what, uint64_t below) {
    return hash_u64(hash_u64(w->seed * 1000 + (uint64_t)step) ^ (uint64_t)what) % below;
}

static bool has_mistakes(const walk *w) {
    return w->kind == GROUP_WALK_MISTAKES || w->kind == GROUP_WALK_MISTAKES_LOSSY ||
           w->kind == GROUP_WALK_ALL;
}

static bool has_losses(const walk *w) {
    return w->kind >= GROUP_WALK_CRASHES;
}

static mistake mistake_of(const walk *w, int step, int rank) {
    if (!has_mistakes(w) || step >= STEPS || choose(w, step, 1, 3) == 0) return NO_MISTAKE;
    if (choose(w, step, 2, (uint64_t)w->count) != (uint64_t)rank) return NO_MISTAKE;
    return (mistake)(1 + choose(w, step, 3, MISTAKE_COUNT - 1));
}

static bool is_clean(const walk *w, int step) {
    return !has_mistakes(w) || step >= STEPS;
}

// ---- Checks -------------------------------------------------------------------------------------

static bool is_ghost(const participant *p) {
    const agent *a = p->root->agent;
    return sim_is_ghost(a->env);
}

// The text of an abort is the same on all members that get it.
static void check_report(walk *w, const char *text) {
    const char *at = strstr(text, "group \"");
    if (!at || !strstr(at, ": collective ")) return;
    const char *end = strstr(strstr(at, ": collective ") + 2, ": ");
    if (!end) return;
    uint64_t of = hash_bytes(at, (size_t)(end - at));
    for (int i = 0; i < w->error_count; i++) {
        if (w->errors[i].of != of) continue;
        if (strcmp(w->errors[i].text, at) != 0)
            fail_msg("one member gets \"%s\", another \"%s\"", w->errors[i].text, at);
        return;
    }
    if (w->error_count == ERRORS) return;
    w->errors[w->error_count].of = of;
    snprintf(w->errors[w->error_count++].text, sizeof w->errors[0].text, "%s", at);
}

static bool mistakes_explain(gw_status status) {
    return status == GW_MISMATCH || status == GW_TIMEOUT || status == GW_CANCELLED ||
           status == GW_INVALID;
}

static bool losses_explain(const walk *w, const gw_error *e) {
    uint64_t ended = w->ended;  // or before they had joined
    if (sim_count(w->sim).crashes) ended |= ~w->begun;
    blame_facts facts = {
        .sim = w->sim, .count = w->count, .ended = ended, .lost_most = w->kind >= GROUP_WALK_STOPS
    };
    if (e->status != GW_DISCONNECTED && e->status != GW_FENCED) return false;
    if (strstr(e->text, "has called gw_rpc_")) return w->ended != 0;
    return blame_explains(e, &facts, BLAME_ANY);
}

static void check_error(participant *p, int step, const gw_error *e) {
    walk *w = p->walk;
    w->outcome.failed++;
    if (is_ghost(p)) return;
    check_report(w, e->text);
    if (has_mistakes(w) && mistakes_explain(e->status)) return;
    // A member that has called less often is in shutdown while another one still waits.
    if (has_mistakes(w) && strstr(e->text, "has called gw_rpc_shutdown")) {
        w->has_ended_early = true;
        return;
    }
    if (has_losses(w) && losses_explain(w, e)) return;
    fail_msg("w%d, step %d: nothing explains \"%s\" (%d)", p->rank, step, e->text, e->status);
}

// ---- One collective -----------------------------------------------------------------------------

typedef enum form {
    ALL_REDUCE,
    ALL_MAX,
    REDUCE,
    BROADCAST,
    ALL_GATHER,
    GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    FORMS_WITH_SHAPES,  // the rest have no shapes by which a mistake is found at once
    BARRIER = FORMS_WITH_SHAPES,
    SCATTER,
    ALL_GATHER_VALUE,
    BROADCAST_VALUE,
    FORM_COUNT
} form;

typedef struct call {
    gw_group *group;
    form form;
    int64_t width;  // which no other one of the walk has
    int root, number;
    uint64_t key;
    gw_dtype dtype;
    bool async, may_be_shifted;
    int64_t timeout_ms;
} call;

static bool has_many(const walk *w, int step) {
    return !w->is_slow && choose(w, step, 4, 40) == 0;
}

static call call_of(participant *p, int step, int i) {
    const walk *w = p->walk;
    int base = 100 + i * 8;
    bool many = has_many(w, step), all = is_clean(w, step) && !many;  // values are waited for
    int group = many ? 0 : (int)choose(w, step, base, 4);
    // Only the group of all members begins a step with an exchange, so mistakes in other groups may leave their members
    // at different collectives.
    if (has_mistakes(w) && step >= STEPS) group = 0;
    call c = { .group = p->groups[group < GROUPS ? group : 0],
               .form = (form)choose(w, step, base + 1, all ? FORM_COUNT : FORMS_WITH_SHAPES),
               .width = 1 + step * (w->is_slow ? 8 : 128) + i % (w->is_slow ? 8 : 128),
               .number = i,
               .key = choose(w, step, base + 2, 3),
               .dtype = choose(w, step, base + 3, 2) ? GW_I64 : GW_F32,
               .async = choose(w, step, base + 4, 2),
               .may_be_shifted = has_mistakes(w),
               .timeout_ms = w->patience_ms };
    if (!w->is_slow && choose(w, step, base + 5, 24) == 0) c.width += 20000;
    if (c.form >= BARRIER) c.key = 3;
    if (c.group) c.root = (int)choose(w, step, base + 6, (uint64_t)gw_group_size(c.group));
    return c;
}

static gw_tensor *input_of(gw_scope *s, const call *c, int rank) {
    int n = gw_group_size(c->group);
    switch (c->form) {
    case ALL_GATHER:
    case GATHER: return gw_full(s, c->dtype, rank + c->number, 1 + rank % 2, c->width);
    case REDUCE_SCATTER:
    case ALL_TO_ALL: return gw_full(s, c->dtype, rank + c->number, n, c->width);
    default: return gw_full(s, c->dtype, rank + c->number, c->width);
    }
}

#define OPTIONS .key = c->key, .timeout_ms = c->timeout_ms

static gw_future *start(gw_scope *s, const call *c, gw_tensor *x) {
    gw_group *g = c->group;
    int self = gw_group_rank(g);
    switch (c->form) {
    case ALL_REDUCE: return gw_all_reduce_async(s, g, x, GW_SUM, OPTIONS);
    case ALL_MAX: return gw_all_reduce_async(s, g, x, GW_MAX, OPTIONS);
    case REDUCE: return gw_reduce_async(s, g, x, GW_SUM, c->root, OPTIONS);
    case BROADCAST: return gw_broadcast_async(s, g, x, c->root, OPTIONS);
    case ALL_GATHER: return gw_all_gather_async(s, g, x, OPTIONS);
    case GATHER: return gw_gather_to_async(s, g, x, c->root, OPTIONS);
    case REDUCE_SCATTER: return gw_reduce_scatter_async(s, g, x, GW_SUM, OPTIONS);
    case ALL_TO_ALL: return gw_all_to_all_async(s, g, x, OPTIONS);
    case SCATTER: {
        gw_list *items = gw_list_open(s);
        for (int i = 0; i < gw_group_size(g); i++)
            gw_list_add(s, items, gw_full(s, c->dtype, i + c->number, c->width));
        return gw_scatter_from_async(s, g, self == c->root ? items : NULL, c->root, OPTIONS);
    }
    default: return gw_barrier_async(s, g, OPTIONS);
    }
}

static void check_numbers(gw_scope *s, const call *c, gw_tensor *x, int64_t count, double total) {
    double sum = gw_item(s, gw_sum(s, gw_to_dtype(s, x, GW_F64)));
    if (!gw_ok(s)) return;
    if (gw_numel(x) != count || sum != total)
        fail_msg("form %d, width %lld: %lld numbers, sum %g instead of %lld, %g", (int)c->form,
                 (long long)c->width, (long long)gw_numel(x), sum, (long long)count, total);
}

// After a mistake a key may be at different collectives on different members, and its next call fails with the missed
// error: members then leave a step at different calls. Calls without a tensor on all members have no shape by which the
// mismatch would be found.
static void note_another_call(gw_scope *s, const call *c) {
    if (!c->may_be_shifted) fail_msg("form %d of another call", (int)c->form);
    gw_fail(s, GW_MISMATCH, "the input of another call");
}

static void check_result(gw_scope *s, const call *c, gw_tensor *x) {
    int n = gw_group_size(c->group), self = gw_group_rank(c->group);
    int64_t w = c->width, rows = 0, of_rows = 0;
    double sum = n * (n - 1) / 2.0 + n * c->number;
    for (int i = 0; i < n; i++) {
        rows += 1 + i % 2;
        of_rows += (1 + i % 2) * (i + c->number);
    }
    bool here = c->root == self;
    if (c->form == SCATTER && gw_numel(x) != w) {
        note_another_call(s, c);
        return;
    }
    switch (c->form) {
    case ALL_REDUCE: check_numbers(s, c, x, w, sum * (double)w); break;
    case ALL_MAX: check_numbers(s, c, x, w, (double)((n - 1 + c->number) * w)); break;
    case REDUCE: check_numbers(s, c, x, here ? w : 0, here ? sum * (double)w : 0); break;
    case BROADCAST: check_numbers(s, c, x, w, (double)((c->root + c->number) * w)); break;
    case ALL_GATHER: check_numbers(s, c, x, rows * w, (double)(of_rows * w)); break;
    case GATHER:
        check_numbers(s, c, x, here ? rows * w : 0, here ? (double)(of_rows * w) : 0);
        break;
    case REDUCE_SCATTER: check_numbers(s, c, x, w, sum * (double)w); break;
    case ALL_TO_ALL: check_numbers(s, c, x, n * w, sum * (double)w); break;
    case SCATTER: check_numbers(s, c, x, w, (double)((self + c->number) * w)); break;
    default: break;
    }
}

// A value contains the rank of its sender and the width of its call.
static void check_of_call(gw_scope *s, const call *c, gw_value v, int from) {
    int64_t content = gw_int_of(s, v);
    if (!gw_ok(s)) return;
    assert_int_equal(content % VALUE_BASE, from);
    if (content / VALUE_BASE != c->width) note_another_call(s, c);
}

static void exchange_values(gw_scope *s, const call *c) {
    int n = gw_group_size(c->group), self = gw_group_rank(c->group);
    int64_t own = self + VALUE_BASE * c->width;
    if (c->form == ALL_GATHER_VALUE) {
        gw_list *all = gw_all_gather_value(s, c->group, own, OPTIONS);
        for (int i = 0; i < n && gw_ok(s); i++) check_of_call(s, c, gw_list_get(s, all, i), i);
    } else {
        gw_value v = gw_broadcast_value(s, c->group, own, c->root, OPTIONS);
        if (gw_ok(s)) check_of_call(s, c, v, c->root);
    }
}

// ---- A step -------------------------------------------------------------------------------------

typedef struct under_way {
    call call;
    gw_future *future;
} under_way;

static void finish(gw_scope *s, under_way *u) {
    if (!u->future) return;
    gw_value v = gw_wait(s, u->future);
    u->future = NULL;
    if (gw_ok(s) && u->call.form < BARRIER) check_result(s, &u->call, gw_tensor_of(s, v));
    if (gw_ok(s) && u->call.form == SCATTER) check_result(s, &u->call, gw_tensor_of(s, v));
}

static void make_mistake(gw_scope *s, mistake m, call *c) {
    int patience_ms = (int)c->timeout_ms;
    switch (m) {
    case IS_LATE: cluster_pause_ms(s, patience_ms + 10000); break;
    case OTHER_SHAPE: c->width += 64; break;
    case OTHER_DTYPE: c->dtype = c->dtype == GW_I64 ? GW_F32 : GW_I64; break;
    case OTHER_ROOT: c->root = (c->root + 1) % gw_group_size(c->group); break;
    case SHORT_DEADLINE: c->timeout_ms = 1; break;
    case SCOPE_FAILED: gw_fail(s, GW_INVALID, "this is wrong on purpose"); break;
    default: break;
    }
}

// GRP-3.
static void check_bounds(gw_group *g) {
    env_enter(g->agent->env);
    uint32_t count = g->run_count;
    env_leave(g->agent->env);
    if (count > RUNS_MAX) fail_msg("%u collectives of a member are under way", count);
}

static void run_call(participant *p, gw_scope *s, call c, mistake m, under_way *u) {
    if (!c.group) return;
    p->walk->outcome.collectives++;
    u->call = c;
    if (c.form >= ALL_GATHER_VALUE) {
        exchange_values(s, &c);
        return;
    }
    gw_tensor *x = input_of(s, &c, gw_group_rank(c.group));
    u->future = start(s, &c, x);
    check_bounds(c.group);
    if (c.async && gw_ok(s)) gw_fill_(s, x, -1);  // it is the program's again
    if (m == CANCELS || m == CANCELS_AND_GOES) gw_cancel(s, u->future);
    if (m == CANCELS_AND_GOES) u->future = NULL;
    if (!c.async) finish(s, u);
}

static void play(participant *p, gw_scope *s, int step) {
    const walk *w = p->walk;
    bool many = has_many(w, step);
    int count = many ? MANY : 1 + (int)choose(w, step, 5, CALLS_MAX);
    int at = (int)choose(w, step, 6, (uint64_t)count);
    mistake m = mistake_of(w, step, p->rank);
    if (m) ((walk *)w)->outcome.mistakes++;
    under_way all[MANY + 1] = { 0 };
    if (many && choose(w, step, 8, (uint64_t)w->count) == (uint64_t)p->rank)
        cluster_pause_ms(s, 100);  // the others wait for it with all they may have under way
    for (int i = 0; i < count && !(w->drops_out && !gw_ok(s)); i++) {
        mistake here = i == at ? m : NO_MISTAKE;
        if (here == LEAVES_ONE_OUT) continue;
        int number = i;
        if (m == SWAPS_TWO && at + 1 < count && (i == at || i == at + 1)) number = 2 * at + 1 - i;
        call c = call_of(p, step, number);
        if (many) c.async = true;
        if (c.group) make_mistake(s, here, &c);
        run_call(p, s, c, here, &all[i]);
        if (here == CALLS_ONE_MORE) {
            call more = call_of(p, step, CALLS_MAX + 1);
            run_call(p, s, more, NO_MISTAKE, &all[MANY]);
        }
    }
    for (int i = 0; i <= MANY; i++)
        if (gw_ok(s)) finish(s, &all[i]);
}

// Members exchange their step numbers, and continue with the latest. False: the exchange has failed.
static bool exchange_steps(participant *p, gw_scope *s, int attempt, int *step) {
    walk *w = p->walk;
    int n = gw_group_size(p->groups[0]);
    uint64_t hash = 0;
    gw_list *all = gw_all_gather_value(s, p->groups[0], attempt * 1000 + *step,
                                       .timeout_ms = 4 * w->patience_ms);
    for (int i = 0; i < n && gw_ok(s); i++) {
        int64_t sent = gw_int_of(s, gw_list_get(s, all, i));
        if (sent % 1000 > *step) *step = (int)(sent % 1000);
        hash = hash_u64(hash ^ (uint64_t)sent);
    }
    for (int i = 0; i < n && gw_ok(s) && !is_ghost(p); i++) {
        int64_t sent = gw_int_of(s, gw_list_get(s, all, i));
        uint64_t *tag = &w->tags[i][sent / 1000];
        if (*tag && *tag != hash) fail_msg("w%d and w%d exchange different steps", p->rank, i);
        *tag = hash;
    }
    return gw_ok(s);
}

// ---- A member -----------------------------------------------------------------------------------

static void open_groups(participant *p) {
    const walk *w = p->walk;
    p->groups[0] = gw_group_world(p->root, .timeout_ms = w->patience_ms);
    int half = 1 + (int)choose(w, 0, 7, (uint64_t)w->count), ranks[MEMBERS_MAX];
    for (int i = 0; i < half; i++) ranks[i] = half - 1 - i;
    if (p->rank < half)
        p->groups[1] = gw_group_of(p->root, p->groups[0], ranks, half, .name = "some",
                                   .timeout_ms = w->patience_ms);
    for (int i = 0; i < w->count; i++) ranks[i] = (i + 1) % w->count;
    p->groups[2] =
        gw_group_of(p->root, p->groups[0], ranks, w->count, .timeout_ms = w->patience_ms);
}

static bool takes_leave(participant *p, int step) {
    walk *w = p->walk;
    if (w->leaver != p->rank || step < w->leaves_at) return false;
    w->ended |= UINT64_C(1) << p->rank;
    if (w->seed % 2) gw_rpc_leave(p->root);
    return true;
}

// Waits until the deadlines of calls with mistakes have passed.
static void rest(participant *p, gw_scope *s) {
    cluster_pause_ms(s, p->walk->patience_ms + 10000);
    p->has_rested = true;
}

// A step; false: there are no more.
static bool run_step(participant *p, int attempt, int *step) {
    gw_scope *s = gw_scope_open(p->root);
    bool continues = true;
    if (exchange_steps(p, s, attempt, step)) {
        if (*step >= STEPS && !p->has_rested)
            rest(p, s);
        else if (*step < STEPS + CLEAN)
            play(p, s, *step);
        else
            continues = false;
    }
    gw_error e = gw_scope_close(s);
    if (e.status)
        check_error(p, *step, &e);
    else if (*step >= STEPS)
        p->clean++;
    if (e.status && getenv("SEED")) fprintf(stderr, "w%d, step %d: %s\n", p->rank, *step, e.text);
    p->is_over = e.status == GW_DISCONNECTED || e.status == GW_FENCED;
    (*step)++;
    return continues;
}

static void run_member(gw_scope *root, int rank, void *context) {
    walk *w = context;
    participant p = { .walk = w, .root = root, .rank = rank };
    bool continues = true;
    p.has_rested = !has_mistakes(w);
    w->begun |= UINT64_C(1) << rank;
    open_groups(&p);
    for (int step = 0, attempt = 1; continues && !p.is_over && gw_ok(root); attempt++) {
        if (takes_leave(&p, step)) return;
        if (attempt == TRIES) fail_msg("w%d is at step %d for ever", rank, step);
        continues = run_step(&p, attempt, &step);
    }
    w->ended |= UINT64_C(1) << rank;
    if (!continues && !is_ghost(&p) && p.clean) w->finished++;
    gw_scope_clear(root);
}

// ---- A walk -------------------------------------------------------------------------------------

static void direct(sim *s, void *context) {
    walk *w = context;
    w->sim = s;
}

static sim_faults faults_of(const walk *w, uint64_t x) {
    sim_faults f = { .nodes = w->count, .until_ns = INT64_C(1000000) << (x % 9) };
    bool all = w->kind == GROUP_WALK_ALL;
    if (w->kind == GROUP_WALK_CRASHES || all) f.crashes = 1 + (int)(x / 16 % 2);
    if (w->kind == GROUP_WALK_STOPS || all) f.stops = 1 + (int)(x / 32 % 2);
    if (w->kind == GROUP_WALK_PARTITIONS || all) f.partitions = 1 + (int)(x / 64 % 2);
    if (!f.crashes && !f.stops && !f.partitions) f.nodes = 0;
    return f;
}

static bool is_lossy(const walk *w) {
    return w->kind == GROUP_WALK_LOSSY || w->kind == GROUP_WALK_MISTAKES_LOSSY;
}

static sim_options network_of(const walk *w) {
    sim_options o = { 0 };
    if (w->is_slow) o = sim_varied(w->seed, is_lossy(w) ? 2000 : 0);
    if (is_lossy(w)) {
        o.lose_per_million = 5000;
        o.duplicate_per_million = 5000;
    }
    return o;
}

group_walk_outcome group_walk_run(uint64_t seed, group_walk_kind kind) {
    walk *w = mem_calloc(sizeof *w);
    assert_non_null(w);
    uint64_t x = hash_u64(seed + 77);
    *w = (walk){ .seed = seed, .kind = kind, .count = 2 + (int)(x % 5), .leaver = -1 };
    w->drops_out = x / 8 % 2;
    w->is_slow = x / 1024 % 2;
    w->patience_ms = is_lossy(w) ? 100000 : 40000;
    if (kind == GROUP_WALK_LEAVES) {
        w->leaver = (int)(x / 16 % (uint64_t)w->count);
        w->leaves_at = (int)(x / 128 % (STEPS + CLEAN));
    }
    cluster_options o = { .world_size = w->count,
                          .network = network_of(w),
                          .faults = faults_of(w, hash_u64(x)),
                          .fails = true,
                          .direct = direct };
    cluster_outcome done = cluster_run(seed, o, run_member, w);
    if (!has_losses(w) && !w->has_ended_early && w->finished != w->count)
        fail_msg("%d of %d have finished", w->finished, w->count);
    group_walk_outcome out = w->outcome;
    out.counts = done.counts;
    mem_free(w);
    return out;
}
