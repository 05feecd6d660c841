// Passes over random graphs while workers crash, stop and are cut off: the survivors have the right
// gradients or an error by a worker that was hit before (testing/blame.h), no pass hangs or leaves anything behind, and the
// next pass works.
#include "passes.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "distributed/autograd/distributed_pass.h"
#include "runtime/runtime.h"
#include "testing/blame.h"
#include "testing/oracle.h"
#include "testing/quiescence.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 4000, STEPS = 3, MS = 1000 * 1000 };

typedef enum fault_kind { LOSSY, CRASHES, STOPS, PARTITIONS, ALL, FAULT_KIND_COUNT } fault_kind;

struct scene;

typedef struct player {
    struct scene *scene;
    int rank;
    env *env;
    gw_scope *root;
    int64_t paused_ns;     // on purpose, in this step
    bool is_going, ended;  // has begun to shut down; has ended
    gw_error error;
    bool is_explained;
} player;

typedef struct scene {
    uint64_t seed, random;
    fault_kind kind;
    sim *sim;
    int count;
    quiescence rest;
    int64_t delay_max_ns;
    passes_world world, copy;
    player players[PASSES_WORKERS_MAX];
    uint64_t crashes_at_rest, gradients, errors;
} scene;

static uint64_t draw(scene *c, uint64_t below) {
    c->random = hash_u64(c->random + 1);
    return c->random % below;
}

// ---- Faults, once all have joined ---------------------------------------------------------------

static void crash(sim *s, void *arg) {
    const player *p = arg;
    if (!p->ended) sim_crash(s, p->rank);
}

static void stop(sim *s, void *arg) {
    const player *p = arg;
    if (!sim_is_crashed(s, p->rank)) sim_stop(s, p->rank);
}

static void resume(sim *s, void *arg) {
    sim_continue(s, ((const player *)arg)->rank);
}

static void cut(sim *s, void *arg) {
    (void)arg;
    sim_cut_all(s);
}

static void cut_off(sim *s, void *arg) {
    const player *p = arg;
    for (int i = 0; i < p->scene->count; i++)
        if (i != p->rank && hash_u64(p->scene->seed + (uint64_t)i) % 2)
            sim_partition(s, p->rank, i, true, p->scene->seed % 3 != 0);
}

static void heal(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
}

// Short delays are as likely as long ones, so that faults occur in every phase of a pass.
static uint64_t draw_long(scene *c, int bits) {
    return 1 + draw(c, UINT64_C(1) << (3 + draw(c, (uint64_t)bits - 3)));
}

static void plan_for(scene *c, void (*from)(sim *s, void *arg), void (*until)(sim *s, void *arg)) {
    player *p = &c->players[draw(c, (uint64_t)c->count)];
    int64_t when = sim_now_ns(c->sim) + (int64_t)draw_long(c, 27);
    int64_t hold = draw(c, 2) ? (int64_t)draw(c, 20 * SIM_SECOND) : (int64_t)draw(c, 50 * MS);
    assert_true(sim_at(c->sim, when, from, p));
    if (until) assert_true(sim_at(c->sim, when + hold, until, p));
}

static void plan_faults(scene *c) {
    bool all = c->kind == ALL;
    plan_for(c, cut, NULL);
    if (c->kind == CRASHES || all)
        for (uint64_t i = 0; i <= draw(c, 2); i++) {
            player *p = &c->players[draw(c, (uint64_t)c->count)];
            uint64_t when = sim_count(c->sim).decisions + draw_long(c, 12);
            assert_true(sim_at_decision(c->sim, when, crash, p));
        }
    if (c->kind == STOPS || all) plan_for(c, stop, resume);
    if (c->kind == PARTITIONS || all) plan_for(c, cut_off, heal);
}

// ---- The outcome of a step ----------------------------------------------------------------------

static bool is_out(const player *p) {
    return p->ended || sim_is_ghost(p->env);
}

static bool is_explained(const scene *c, const gw_error *error) {
    blame_facts f = { .sim = c->sim, .count = c->count };
    bool any_is_gone = false;
    for (int i = 0; i < c->count; i++) {
        f.ended |= (uint64_t)c->players[i].is_going << i;
        any_is_gone |= blame_may_be_gone(&f, i);
    }
    // A worker that gave up a send because of a lost worker may not have the name of that one any more.
    if (error->status == GW_WRONG_STATE)
        return any_is_gone && strstr(error->text, "or because one of these workers is gone");
    return blame_explains(error, &f, BLAME_ANY);
}

// Returns true if the step has succeeded as expected.
static bool step_ends(player *p, gw_scope *s, gw_status expected) {
    gw_error error = gw_scope_close(s);
    if (sim_is_ghost(p->env)) return false;
    p->scene->gradients += error.status == GW_OK;
    p->scene->errors += error.status != GW_OK;
    if (error.status == expected) return true;
    if (expected != GW_OK && error.status == GW_OK && expected != GW_WRONG_STATE) return true;
    if (!is_explained(p->scene, &error))
        fail_msg("worker %d: %s: %s", p->rank, gw_status_name(error.status), error.text);
    return false;
}

static void compare(player *p, uint64_t seed, const passes_grads *got) {
    passes_grads expected;
    gw_scope *alone = gw_scope_open(NULL);
    p->scene->copy.without = p->scene->world.without;
    passes_play_here(alone, &p->scene->copy, p->rank, seed, &expected);
    gw_error none = gw_scope_close(alone);
    assert_string_equal(none.text, "");
    passes_expect_equal(got, &expected);
}

static void play_again(player *p, uint64_t seed) {
    passes_grads got;
    gw_scope *s = gw_scope_open(p->root);
    bool compares = passes_play_again(s, p->rank, seed, 1 + (int64_t)(seed % 7), &got);
    if (step_ends(p, s, GW_OK) && compares) compare(p, seed, &got);
}

static void play_and_compare(player *p, uint64_t seed, bool must) {
    passes_grads got;
    gw_scope *s = gw_scope_open(p->root);
    passes_play(s, p->rank, seed, &got);
    must = must && sim_count(p->scene->sim).crashes == p->scene->crashes_at_rest;
    if (must && !sim_is_ghost(p->env) && !gw_ok(s))
        fail_msg("worker %d, after it all: %s", p->rank, gw_scope_error(s)->text);
    if (step_ends(p, s, GW_OK)) compare(p, seed, &got);
}

static bool is_out(const player *p);

static scene *scene_now;

// A number that changes with every fault, and while one lasts.
static uint64_t troubles_of(const scene *c) {
    sim_counts n = sim_count(c->sim);
    uint64_t troubles = n.cuts + n.frames_lost + n.crashes + n.stops + n.partitions;
    for (int i = 0; i < c->count; i++) troubles += (uint64_t)sim_away_ns(c->sim, i);
    return troubles;
}

// Fails the test if a worker still has a part of a failed pass of |p|, whose scope is open.
static void expect_dropped(const player *p, const gw_scope *s, const agent *a) {
    list_each(l, &graphs_of(a)->passes) {
        const distributed_pass *x = list_entry(l, distributed_pass, link);
        const graphs *own = graphs_of((const agent *)p->root->agent);
        bool has_failed = own->failed[x->number % PASSES_FAILED_BITS] == x->number;
        if (x->initiator == p->rank && x->scope == s->id && has_failed)
            fail_msg("worker %d keeps a part of pass %d of worker %d, which has failed", a->rank,
                     (int)x->number, p->rank);
    }
}

// Once all workers have been notified of a failed pass, no worker keeps a part of it. Faults meanwhile may delay that.
static void wait_until_dropped(gw_scope *s) {
    scene *c = scene_now;
    const agent *own = s->agent;
    player *p = &c->players[own->rank];
    uint64_t troubles = troubles_of(c);
    int64_t pause_ns = 6 * SIM_SECOND + 50 * c->delay_max_ns;
    if (is_out(p)) return;
    p->paused_ns += pause_ns;
    sim_pass_time(p->env, pause_ns);
    if (troubles_of(c) != troubles || is_out(p)) return;
    for (int i = 0; i < c->count; i++)
        if (!is_out(&c->players[i])) expect_dropped(p, s, c->players[i].root->agent);
}

static void play_in_time(player *p, uint64_t seed) {
    passes_grads got;
    int64_t began_ns = sim_now_ns(p->scene->sim), timeout_ms = 1 + (int64_t)(seed % 20);
    gw_scope *s = gw_scope_open(p->root);
    gw_scope_set_timeout(s, timeout_ms);
    passes_play(s, p->rank, seed, &got);
    bool is_late = gw_scope_error(s)->status == GW_TIMEOUT;
    if (is_late) assert_true(sim_now_ns(p->scene->sim) - began_ns >= timeout_ms * MS);
    step_ends(p, s, GW_TIMEOUT);
}

static void play_spent(player *p, uint64_t seed) {
    gw_scope *s = gw_scope_open(p->root);
    passes_play_spent(s, p->rank, seed);
    step_ends(p, s, GW_WRONG_STATE);
}

static void play_and_cancel(player *p, uint64_t seed) {
    gw_scope *s = gw_scope_open(p->root);
    gw_future *f = passes_play_on(s, (int)(seed % (uint64_t)p->scene->count), seed);
    sim_pass_time(p->env, (int64_t)(hash_u64(seed) % (UINT64_C(1) << (10 + seed % 16))));
    gw_cancel(s, f);
    gw_wait(s, f);
    step_ends(p, s, GW_CANCELLED);
}

static void check_time(const player *p, sim_counts before, int64_t began_ns) {
    const scene *c = p->scene;
    sim_counts now = sim_count(c->sim);
    int64_t took = sim_now_ns(c->sim) - began_ns - p->paused_ns;
    int64_t breaks = (int64_t)(now.cuts - before.cuts + 2 * (now.frames_lost - before.frames_lost));
    int64_t patience = 5 * SIM_SECOND + 3000 * c->delay_max_ns + breaks * SIM_SECOND;
    patience += (int64_t)now.crashes * 2 * SIM_SECOND;
    if (now.stops + now.partitions) patience += 90 * SIM_SECOND;
    if (took > patience) fail_msg("worker %d took %.3f s", p->rank, (double)took / 1e9);
}

static void step(player *p, int i) {
    scene *c = p->scene;
    sim_counts before = sim_count(c->sim);
    int64_t began_ns = sim_now_ns(c->sim);
    uint64_t seed = c->seed * 100 + (uint64_t)(p->rank * 10 + i);
    p->paused_ns = 0;
    switch (hash_u64(seed + 5) % 8) {
    case 0: play_in_time(p, seed); break;
    case 1: play_spent(p, seed); break;
    case 2: play_and_cancel(p, seed); break;
    case 3:
    case 4: play_again(p, seed); break;
    default: play_and_compare(p, seed, false);
    }
    if (!sim_is_ghost(p->env)) check_time(p, before, began_ns);
}

// ---- Quiescence ---------------------------------------------------------------------------------

static bool player_is_out(const void *context, int rank) {
    return is_out(&((const scene *)context)->players[rank]);
}

static void await_rest(player *p, void (*check)(scene *c)) {
    if (quiescence_await(&p->scene->rest, p->env, p->rank)) check(p->scene);
}

static agent *agent_left(const player *p) {
    agent *a = p->ended ? NULL : p->root->agent;
    return a && !sim_is_ghost(p->env) && a->phase != AGENT_LEFT ? a : NULL;
}

static size_t length(const list_node *list) {
    size_t count = 0;
    list_each(l, list) count++;
    return count;
}

static void check_empty(scene *c) {
    c->crashes_at_rest = sim_count(c->sim).crashes;
    for (int i = 0; i < c->count; i++) {
        agent *a = agent_left(&c->players[i]);
        if (!a) {
            c->world.without |= UINT64_C(1) << i;
            continue;
        }
        const graphs *g = graphs_of(a);
        if (g->sends.count || g->released_count || length(&g->passes) || length(&g->ending))
            fail_msg("at rest worker %d has %zu sends, %u to release, %zu passes, %zu that end", i,
                     g->sends.count, g->released_count, length(&g->passes), length(&g->ending));
        oracle_check_empty(a);
    }
}

// ---- A worker -----------------------------------------------------------------------------------

static void play(player *p) {
    scene *c = p->scene;
    int count;
    passes_open_weights(p->root, &c->world, p->rank);
    gw_scope *s = gw_scope_open(p->root);
    const gw_worker *workers = gw_rpc_workers(s, &count);
    gw_rpc_barrier(s, workers, count);
    gw_error missed = gw_scope_close(s);  // some workers may have left already
    (void)missed;
    if (!c->random) {
        c->random = hash_u64(c->seed + 1);
        plan_faults(c);
    }
    bool plays = p->rank == (int)(c->seed % (uint64_t)c->count) ||
                 hash_u64(c->seed + (uint64_t)p->rank) % 3 == 0;
    for (int i = 0; plays && i < STEPS && !sim_is_ghost(p->env); i++) step(p, i);
    await_rest(p, check_empty);
    if (agent_left(p)) play_and_compare(p, c->seed * 100 + 90 + (uint64_t)p->rank, true);
    await_rest(p, check_empty);
}

static void run_worker(void *arg) {
    player *p = arg;
    scene *c = p->scene;
    char name[16];
    snprintf(name, sizeof name, "w%d", p->rank);
    p->root = gw_scope_open(NULL);
    runtime_open_on(p->root, p->env, true,
                    GW_OPTIONS(gw_rpc_options, .name = name, .rank = p->rank,
                               .world_size = c->count, .init_method = "tcp://127.0.0.1:29500",
                               .threads = 1 + (int)(c->seed % 3)));
    assert_true(gw_ok(p->root));
    play(p);
    p->is_going = true;
    gw_rpc_shutdown(p->root);
    p->ended = true;
    p->error = gw_scope_close(p->root);
    p->is_explained = p->error.status == GW_FENCED && is_explained(c, &p->error);
}

static void judge(const scene *c) {
    for (int i = 0; i < c->count; i++) {
        const player *p = &c->players[i];
        if (p->error.status && !sim_is_crashed(c->sim, i) && !p->is_explained)
            fail_msg("worker %d ended with: %s", i, p->error.text);
    }
}

static sim_options choose_network(const scene *c) {
    sim_options o = sim_varied(c->seed, c->seed / FAULT_KIND_COUNT % 3 == 0 ? 10000 : 0);
    if (o.delay_max_us > 20000) o.delay_max_us = 20000;
    if (o.window_bytes < 1000) o.window_bytes = 0;
    if (c->kind == LOSSY || c->kind == ALL) {
        o.lose_per_million = c->seed / 15 % 2 ? 3000 : 0;
        o.duplicate_per_million = c->seed / 30 % 2 ? 20000 : 0;
    }
    return o;
}

typedef struct tally {
    fault_kind kind;
    uint64_t seeds, gradients, errors;
    sim_counts counts;
} tally;

static void count_up(tally *t, const scene *c) {
    sim_counts n = sim_count(c->sim);
    const uint64_t *from = (const uint64_t *)&n;
    uint64_t *to = (uint64_t *)&t->counts;
    for (size_t i = 0; i < sizeof n / sizeof *from; i++) to[i] += from[i];
    t->seeds++;
    t->gradients += c->gradients;
    t->errors += c->errors;
}

static void run_seed(uint64_t seed, void *context) {
    tally *t = context;
    if (seed % FAULT_KIND_COUNT != (uint64_t)t->kind) return;
    scene *c = mem_calloc(sizeof *c);
    assert_non_null(c);
    gw_scope *own = gw_scope_open(NULL);
    c->seed = seed;
    c->kind = t->kind;
    c->copy.worker_count = c->world.worker_count = c->count = 2 + (int)(hash_u64(seed + 3) % 5);
    for (int rank = 0; rank < c->count; rank++) passes_open_weights(own, &c->copy, rank);
    passes_now = &c->world;
    scene_now = c;
    c->world.failed = wait_until_dropped;
    sim_options network = choose_network(c);
    c->delay_max_ns = network.delay_max_us > 0 ? (int64_t)network.delay_max_us * 1000 : 1000;
    c->sim = sim_open(seed, network);
    assert_non_null(c->sim);
    c->rest = (quiescence){ .sim = c->sim,
                            .delay_max_ns = c->delay_max_ns,
                            .count = c->count,
                            .is_out = player_is_out,
                            .context = c };
    for (int i = 0; i < c->count; i++) {
        c->players[i] = (player){ .scene = c, .rank = i, .env = sim_env(c->sim, i) };
        assert_true(sim_spawn(c->sim, i, run_worker, &c->players[i]));
    }
    assert_true(sim_run(c->sim, 3600 * SIM_SECOND));
    judge(c);
    count_up(t, c);
    sim_close(c->sim);
    mem_free(c);
    gw_scope_close_up(own);
}

// With PASSES_LOG in the environment, counts of steps are written to that file.
static void report(const tally *t) {
    const char *path = getenv("PASSES_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    const sim_counts *n = &t->counts;
    if (!f) return;
    fprintf(f,
            "kind %d: %" PRIu64 " seeds, %" PRIu64 " decisions, %" PRIu64 " deliveries, %" PRIu64
            " successful steps, %" PRIu64 " errors; %" PRIu64 " cuts, %" PRIu64
            " frames lost, %" PRIu64 " repeated, %" PRIu64 " crashes, %" PRIu64 " stops, %" PRIu64
            " partitions of a link\n",
            (int)t->kind, t->seeds, n->decisions, n->deliveries, t->gradients, t->errors, n->cuts,
            n->frames_lost, n->frames_repeated, n->crashes, n->stops, n->partitions);
    fclose(f);
}

static void walk_through(fault_kind kind) {
    tally t = { .kind = kind };
    testing_for_seeds(SEEDS, run_seed, &t);
    report(&t);
}

static void passes_survive_lost_and_repeated_frames(void **state) {
    (void)state;
    walk_through(LOSSY);
}

static void passes_end_when_workers_crash(void **state) {
    (void)state;
    walk_through(CRASHES);
}

static void passes_end_when_workers_stop(void **state) {
    (void)state;
    walk_through(STOPS);
}

static void passes_end_when_workers_are_partitioned(void **state) {
    (void)state;
    walk_through(PARTITIONS);
}

static void passes_end_under_all_faults(void **state) {
    (void)state;
    walk_through(ALL);
}

GW_TESTS_WITH_LIMIT(passes_fault_sim, 300, passes_survive_lost_and_repeated_frames,
                    passes_end_when_workers_crash, passes_end_when_workers_stop,
                    passes_end_when_workers_are_partitioned, passes_end_under_all_faults);
