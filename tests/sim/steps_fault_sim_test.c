// Optimizer steps over several owners, of one trainer or two, while workers crash, stop and are cut off. After a
// successful step all owners have taken it, with the numbers of one process. After a failed one they are at the steps
// that its error states. No step hangs or stays prepared, and the next step works.
#include "steps.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "distributed/autograd/graphs.h"
#include "distributed/optim/optimizers.h"
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

enum { SEEDS = 1800, TRIES = 6, MS = 1000 * 1000 };

typedef enum fault_kind {
    LOSSY,
    CRASHES,
    STOPS,
    PARTITIONS,
    ALL,
    DOUBTS,  // a trainer that all have prepared for, and whose loss only some have detected, resumes
    FAULT_KIND_COUNT
} fault_kind;

struct scene;

typedef struct player {
    struct scene *scene;
    int rank;
    env *env;
    gw_scope *root;
    int64_t hold_ns;       // of a stop or partition
    bool is_going, ended;  // has begun to shut down; has ended
    gw_error error;
    bool is_explained;

    gw_scope *weights;  // of an owner: the scope of its object

    // a trainer's
    gw_scope *own;
    gw_optimizer *optimizer;  // NULL: none, it could not be made
    uint64_t owners;          // of it, as bits
    int tries;
    bool is_spoilt;  // of numbers: an owner is lost, so one process computes other numbers
} player;

typedef struct scene {
    uint64_t seed, random;
    fault_kind kind;
    bool aims;  // faults begin with one try, |aim|
    int aim;    // which
    sim *sim;
    quiescence rest;
    int64_t delay_max_ns;
    steps_world world;
    player players[STEPS_WORKERS_MAX];
    uint64_t faults_at_rest;
    uint64_t whole, unchanged, ahead, unsure, others;  // counts of steps, by outcome
} scene;

static uint64_t draw(scene *c, uint64_t below) {
    c->random = hash_u64(c->random + 1);
    return c->random % below;
}

static agent *agent_left(const player *p) {
    agent *a = p->ended ? NULL : p->root->agent;
    return a && !sim_is_ghost(p->env) && a->phase != AGENT_LEFT ? a : NULL;
}

static bool is_trainer(const player *p) {
    return p->rank < p->scene->world.trainer_count;
}

static bool has_lost(const player *p, int rank) {
    const agent *a = p->root->agent;
    return a->phase == AGENT_LEFT || agent_member(a, rank)->lost;
}

static uint64_t faults_of(const scene *c) {
    sim_counts n = sim_count(c->sim);
    return n.crashes + n.stops + n.partitions;
}

// ---- Faults -------------------------------------------------------------------------------------
static void crash(sim *s, void *arg) {
    const player *p = arg;
    if (!p->ended) sim_crash(s, p->rank);
}

static void resume(sim *s, void *arg) {
    sim_continue(s, ((const player *)arg)->rank);
}

static void stop(sim *s, void *arg) {
    const player *p = arg;
    if (sim_is_crashed(s, p->rank)) return;
    sim_stop(s, p->rank);
    assert_true(sim_at(s, sim_now_ns(s) + p->hold_ns, resume, arg));
}

static void cut(sim *s, void *arg) {
    (void)arg;
    sim_cut_all(s);
}

static void heal(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
}

static void part(sim *s, void *arg) {
    const player *p = arg;
    for (int i = 0; i < p->scene->world.worker_count; i++)
        if (i != p->rank && hash_u64(p->scene->seed + (uint64_t)i) % 2)
            sim_partition(s, p->rank, i, true, p->scene->seed % 3 != 0);
    assert_true(sim_at(s, sim_now_ns(s) + p->hold_ns, heal, arg));
}

// Early faults are as likely as late ones, so that they occur in every phase of a step; and faults of trainers as
// likely as those of all owners.
static void plan_for(scene *c, void (*act)(sim *s, void *arg)) {
    uint64_t among = (uint64_t)(draw(c, 2) ? c->world.worker_count : c->world.trainer_count);
    player *p = &c->players[draw(c, among)];
    uint64_t range = UINT64_C(2) << draw(c, c->aims ? 5 : 9);
    p->hold_ns = draw(c, 2) ? (int64_t)draw(c, 20 * SIM_SECOND) : (int64_t)draw(c, 50 * MS);
    assert_true(sim_at_decision(c->sim, sim_count(c->sim).decisions + 1 + draw(c, range), act, p));
}

// ---- Doubts: OPT-5 ------------------------------------------------------------------------------
static int count_owners(const player *p, bool (*are_in)(optimizers_counts n)) {
    int count = 0;
    for (int i = 0; i < p->scene->world.worker_count; i++) {
        const agent *a = p->owners >> i & 1 ? agent_left(&p->scene->players[i]) : NULL;
        count += a && are_in(optimizers_count(optimizers_of(a)));
    }
    return count;
}

static bool have_prepared(optimizers_counts n) {
    return n.prepared > 0;
}

static bool have_been_queried(optimizers_counts n) {
    return n.fenced > 0;
}

static bool all_have_prepared(void *arg) {
    const player *p = arg;
    return count_owners(p, have_prepared) == __builtin_popcountll(p->owners);
}

static bool one_has_been_queried(void *arg) {
    return count_owners(arg, have_been_queried) > 0;
}

static void resume_soon(sim *s, void *arg) {
    scene *c = ((const player *)arg)->scene;
    assert_true(sim_at(s, sim_now_ns(s) + (int64_t)draw(c, 400 * MS), resume, arg));
}

// The trainer stops. One owner receives nothing from the worker that will announce the loss, so that it is notified by another,
// and later. When an owner queries whether another has committed, the trainer resumes.
static void cause_doubt(sim *s, void *arg) {
    player *p = arg;
    scene *c = p->scene;
    int announcer = p->rank == 0;
    int deaf = c->world.worker_count - 1 - (int)draw(c, 2);
    stop(s, arg);
    if (deaf > announcer) sim_partition(s, announcer, deaf, true, draw(c, 2));
    assert_true(sim_at(s, sim_now_ns(s) + p->hold_ns, heal, arg));
    assert_true(sim_when(s, one_has_been_queried, draw(c, 2) ? resume : resume_soon, arg));
}

static void plan_doubts(scene *c) {
    player *p = &c->players[draw(c, (uint64_t)c->world.trainer_count)];
    p->hold_ns = 12 * SIM_SECOND;
    assert_true(sim_when(c->sim, all_have_prepared, cause_doubt, p));
}

static void plan_faults(scene *c) {
    bool all = c->kind == ALL;
    c->random = hash_u64(c->seed + 1);
    if (c->kind == DOUBTS) plan_doubts(c);
    if (c->kind == DOUBTS) return;
    plan_for(c, cut);
    if (c->kind == CRASHES || all) plan_for(c, crash);
    if (c->kind == CRASHES && draw(c, 2)) plan_for(c, crash);
    if (c->kind == STOPS || all) plan_for(c, stop);
    if (c->kind == PARTITIONS || all) plan_for(c, part);
}

// ---- The outcome of a step ----------------------------------------------------------------------
static bool is_explained(const scene *c, const gw_error *error) {
    sim_counts n = sim_count(c->sim);
    blame_facts f = { .sim = c->sim, .count = c->world.worker_count };
    for (int i = 0; i < f.count; i++) f.ended |= (uint64_t)c->players[i].is_going << i;
    // Another trainer holds the weights of both for long.
    if (error->status == GW_OVERLOADED)
        return c->world.trainer_count > 1 && faults_of(c) + n.cuts + n.frames_lost > 0;
    return blame_explains(error, &f, BLAME_ANY);
}

// An operation that began at |began_ns|.
static void expect_explained(const player *p, const gw_error *error, int64_t began_ns,
                             int64_t timeout_ms) {
    bool in_time = sim_now_ns(p->scene->sim) - began_ns < timeout_ms * MS;
    if (error->status == GW_TIMEOUT && timeout_ms && !in_time) return;
    if (strstr(error->text, "another owner has lost the worker that makes the step")) {
        blame_facts f = { .sim = p->scene->sim, .count = p->scene->world.worker_count };
        assert_true(error->status == GW_FENCED && blame_may_be_gone(&f, p->rank));
        return;
    }
    if (error->status && !is_explained(p->scene, error))
        fail_msg("worker %d: %s: %s", p->rank, gw_status_name(error->status), error->text);
}

static uint64_t weights_of(const player *p) {
    return p->owners | (p->scene->world.has_own ? UINT64_C(1) << p->rank : 0);
}

// The workers that are named before "all others".
static uint64_t named_in(const gw_error *error, int count) {
    char text[GW_ERROR_TEXT_MAX], name[16];
    uint64_t named = 0;
    snprintf(text, sizeof text, "%s", strstr(error->text, "gw_optimizer_step: "));
    *strstr(text, "all others") = '\0';
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "w%d", i);
        if (strstr(text, name)) named |= UINT64_C(1) << i;
    }
    return named;
}

// Reads the outcomes of a try from the text of its error.
static void read_outcomes(player *p, int n, const gw_error *error) {
    scene *c = p->scene;
    steps_world *w = &c->world;
    uint64_t all = weights_of(p), own = all & ~p->owners;
    if (!error->status) {
        c->whole++;
        steps_record_outcome(w, p->rank, n, all, YES);
    } else if (w->concurrent) {
        c->unsure++;
    } else if (strstr(error->text, "nothing has changed")) {
        c->unchanged++;
        steps_record_outcome(w, p->rank, n, all, NO);
    } else if (strstr(error->text, "but this worker is at step")) {
        c->unsure++;
        steps_record_outcome(w, p->rank, n, own, NO);
    } else if (strstr(error->text, "all others are at step")) {
        c->ahead++;
        steps_record_outcome(w, p->rank, n, all & ~named_in(error, w->worker_count), YES);
    } else {
        c->others++;
        steps_record_outcome(w, p->rank, n, all, NO);
    }
}

static void check_weights(const player *p) {
    const scene *c = p->scene;
    for (int i = 0; i < c->world.worker_count; i++)
        if (weights_of(p) >> i & 1 && agent_left(&c->players[i]) &&
            (i == p->rank || !has_lost(p, i)))
            steps_check(&c->world, i, p->rank);
}

static void check_time(const player *p, sim_counts before, int64_t began_ns) {
    const scene *c = p->scene;
    sim_counts now = sim_count(c->sim);
    int64_t took = sim_now_ns(c->sim) - began_ns;
    int64_t breaks = (int64_t)(now.cuts - before.cuts + 2 * (now.frames_lost - before.frames_lost));
    int64_t patience = 5 * SIM_SECOND + 3000 * c->delay_max_ns + breaks * SIM_SECOND;
    patience += (int64_t)now.crashes * 2 * SIM_SECOND;
    if (now.stops + now.partitions) patience += 90 * SIM_SECOND;
    if (took > patience) fail_msg("worker %d took %.3f s", p->rank, (double)took / 1e9);
}

// ---- A trainer ----------------------------------------------------------------------------------
static void close_optimizer(player *p) {
    p->optimizer = NULL;
    if (!p->own) return;
    gw_error error = gw_scope_close(p->own);
    p->own = NULL;
    if (!sim_is_ghost(p->env)) expect_explained(p, &error, 0, 0);
}

// Makes an optimizer over all owners that are alive.
static void open_optimizer(player *p) {
    const steps_world *w = &p->scene->world;
    close_optimizer(p);
    p->owners = 0;
    for (int i = w->trainer_count; i < w->worker_count; i++)
        if (!has_lost(p, i)) p->owners |= UINT64_C(1) << i;
    p->own = gw_scope_open(p->root);
    if (!weights_of(p)) return;
    gw_optimizer *opt = steps_open_optimizer(p->own, w, p->rank, p->owners);
    if (gw_ok(p->own)) p->optimizer = opt;
}

static bool has_lost_owners(const player *p) {
    for (int i = 0; i < p->scene->world.worker_count; i++)
        if (p->owners >> i & 1 && has_lost(p, i)) return true;
    return false;
}

// Whether the step succeeded.
static bool step(player *p, int64_t timeout_ms) {
    scene *c = p->scene;
    sim_counts before = sim_count(c->sim);
    int64_t began_ns = sim_now_ns(c->sim);
    gw_scope *s = gw_scope_open(p->root);
    gw_scope_set_timeout(s, timeout_ms);
    steps_walk(s, &c->world, p->rank, p->tries, p->owners, p->optimizer);
    if (gw_ok(s) && !sim_is_ghost(p->env)) {
        int n = p->tries++;
        assert_true(n < STEPS_TRIES_MAX);
        steps_record_outcome(&c->world, p->rank, n, weights_of(p), MAYBE);
        if (c->aims && n == c->aim && !c->random) plan_faults(c);
        gw_optimizer_step(s, p->optimizer);
        if (!sim_is_ghost(p->env) && !p->is_spoilt) {
            read_outcomes(p, n, gw_scope_error(s));
            check_weights(p);
        }
    }
    gw_error error = gw_scope_close(s);
    if (sim_is_ghost(p->env)) return false;
    expect_explained(p, &error, began_ns, timeout_ms);
    check_time(p, before, began_ns);
    return !error.status;
}

static void train(player *p) {
    for (int i = 0; i < TRIES && !sim_is_ghost(p->env); i++) {
        uint64_t random = hash_u64(p->scene->seed * 100 + (uint64_t)(p->rank * 10 + i));
        bool anew = !p->optimizer || (has_lost_owners(p) && random % 2);
        if (anew && p->scene->world.is_numbers) p->is_spoilt = true;
        if (anew) open_optimizer(p);
        if (p->optimizer) step(p, random / 2 % 4 ? 0 : 1 + (int64_t)(random / 8 % 20));
    }
}

// After all faults, a step works.
static void train_at_rest(player *p) {
    if (!p->optimizer || has_lost_owners(p)) {
        p->is_spoilt = p->scene->world.is_numbers;
        open_optimizer(p);
    }
    bool ok = p->optimizer ? step(p, 0) : !p->own || gw_ok(p->own);
    bool must = faults_of(p->scene) == p->scene->faults_at_rest;
    if (must && !ok && !sim_is_ghost(p->env) && !has_lost_owners(p) && agent_left(p))
        fail_msg("worker %d cannot step after it all", p->rank);
}

// ---- Quiescence ---------------------------------------------------------------------------------
static bool is_out(const void *context, int rank) {
    const player *p = &((const scene *)context)->players[rank];
    return p->ended || sim_is_ghost(p->env);
}

static void await_rest(player *p, void (*check)(scene *c)) {
    if (quiescence_await(&p->scene->rest, p->env, p->rank)) check(p->scene);
}

// How many optimizers the surviving trainers have at |owner|.
static int optimizers_at(const scene *c, int owner) {
    int count = 0;
    for (int t = 0; t < c->world.trainer_count; t++) {
        const player *p = &c->players[t];
        count += agent_left(p) && p->optimizer && p->owners >> owner & 1;
    }
    return count;
}

// Checks that no step is prepared any more, and that the optimizers of lost trainers have ended.
static void check_finalized(scene *c) {
    c->faults_at_rest = faults_of(c);
    bool all_left = true;
    for (int i = c->world.trainer_count; i < c->world.worker_count; i++) {
        const agent *a = agent_left(&c->players[i]);
        all_left &= a != NULL;
        if (!a) continue;
        optimizers_counts n = optimizers_count(optimizers_of(a));
        if (n.prepared || n.owned > optimizers_at(c, i))
            fail_msg("at rest worker %d serves %d optimizers, %d of them with a step that is "
                     "staged; trainers have %d there",
                     i, n.owned, n.prepared, optimizers_at(c, i));
        if (!c->players[0].is_spoilt) steps_check(&c->world, i, -1);
    }
    for (int i = c->world.trainer_count; all_left && i + 1 < c->world.worker_count; i++)
        if (!c->world.concurrent) steps_check_agreement(&c->world, i, i + 1);
}

static void check_nothing(scene *c) {
    (void)c;
}

static size_t length(const list_node *list) {
    size_t count = 0;
    list_each(l, list) count++;
    return count;
}

static void check_empty(scene *c) {
    for (int i = 0; i < c->world.worker_count; i++) {
        agent *a = agent_left(&c->players[i]);
        if (!a) continue;
        const graphs *g = graphs_of(a);
        if (g->sends.count || length(&g->passes) || optimizers_count(optimizers_of(a)).owned)
            fail_msg("at rest worker %d has %zu sends, %zu passes, %d optimizers", i,
                     g->sends.count, length(&g->passes), optimizers_count(optimizers_of(a)).owned);
        oracle_check_empty(a);
    }
}

// ---- A worker -----------------------------------------------------------------------------------
static void enter_barrier(player *p) {
    int count;
    gw_scope *s = gw_scope_open(p->root);
    const gw_worker *workers = gw_rpc_workers(s, &count);
    gw_rpc_barrier(s, workers, count);
    gw_error missed = gw_scope_close(s);  // some workers may have left already
    (void)missed;
}

static void play(player *p) {
    scene *c = p->scene;
    p->weights = gw_scope_open(p->root);
    steps_open_weight(c->world.in_objects ? p->weights : p->root, &c->world, p->rank);
    enter_barrier(p);
    if (is_trainer(p)) open_optimizer(p);
    enter_barrier(p);
    if (!c->random && !c->aims) plan_faults(c);
    if (is_trainer(p)) train(p);
    await_rest(p, check_finalized);
    if (is_trainer(p) && agent_left(p)) train_at_rest(p);
    if (is_trainer(p)) close_optimizer(p);
    if (c->world.in_objects) await_rest(p, check_nothing);
    gw_error none = gw_scope_close(p->weights);
    if (!sim_is_ghost(p->env)) assert_string_equal(none.text, "");
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
                               .world_size = c->world.worker_count,
                               .init_method = "tcp://127.0.0.1:29500",
                               .threads = 1 + (int)(c->seed % 3)));
    if (!gw_ok(p->root)) fail_msg("%s", gw_scope_error(p->root)->text);
    play(p);
    p->is_going = true;
    gw_rpc_shutdown(p->root);
    p->ended = true;
    p->error = gw_scope_close(p->root);
    p->is_explained = p->error.status == GW_FENCED && is_explained(c, &p->error);
}

static void judge_ends(const scene *c) {
    for (int i = 0; i < c->world.worker_count; i++) {
        const player *p = &c->players[i];
        if (p->error.status && !sim_is_crashed(c->sim, i) && !p->is_explained)
            fail_msg("worker %d ended with: %s", i, p->error.text);
    }
}

// ---- Seeds --------------------------------------------------------------------------------------
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

static void choose_world(steps_world *w, uint64_t seed) {
    uint64_t random = hash_u64(seed + 3);
    w->is_numbers = random % 3 == 0;
    w->trainer_count = w->is_numbers ? 1 : 1 + (int)(random / 3 % 2);
    w->worker_count = w->trainer_count + 1 + (int)(random / 6 % STEPS_OWNERS_MAX);
    w->has_own = random / 18 % 2;
    w->concurrent = random / 36 % 4 == 0;
    w->by_rate = random / 144 % 2;
    w->rule = (int)(random / 288 % 2);
    w->in_objects = random / 576 % 2;
    if (w->is_numbers) steps_compute_numbers(w);
}

typedef struct tally {
    fault_kind kind;
    uint64_t seeds, whole, unchanged, ahead, unsure, others;
} tally;

static void run_seed(uint64_t seed, void *context) {
    tally *t = context;
    if (seed % FAULT_KIND_COUNT != (uint64_t)t->kind) return;
    scene *c = mem_calloc(sizeof *c);
    assert_non_null(c);
    c->seed = seed;
    c->kind = t->kind;
    c->aims = c->kind == DOUBTS || hash_u64(seed + 7) % 4 > 0;
    c->aim = (int)(hash_u64(seed + 7) / 4 % TRIES);
    choose_world(&c->world, seed);
    steps_now = &c->world;
    sim_options network = choose_network(c);
    c->delay_max_ns = network.delay_max_us > 0 ? (int64_t)network.delay_max_us * 1000 : 1000;
    c->sim = sim_open(seed, network);
    assert_non_null(c->sim);
    c->rest = (quiescence){ .sim = c->sim,
                            .delay_max_ns = c->delay_max_ns,
                            .count = c->world.worker_count,
                            .is_out = is_out,
                            .context = c };
    for (int i = 0; i < c->world.worker_count; i++) {
        c->players[i] = (player){ .scene = c, .rank = i, .env = sim_env(c->sim, i) };
        assert_true(sim_spawn(c->sim, i, run_worker, &c->players[i]));
    }
    assert_true(sim_run(c->sim, 3600 * SIM_SECOND));
    judge_ends(c);
    t->seeds++;
    t->whole += c->whole;
    t->unchanged += c->unchanged;
    t->ahead += c->ahead;
    t->unsure += c->unsure;
    t->others += c->others;
    sim_close(c->sim);
    mem_free(c);
}

// With STEPS_LOG in the environment, counts of outcomes go to that file.
static void report(const tally *t) {
    const char *path = getenv("STEPS_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f,
            "kind %d: %" PRIu64 " seeds, %" PRIu64 " successful steps, %" PRIu64
            " without effect, %" PRIu64 " with others ahead, %" PRIu64 " unsure, %" PRIu64
            " other errors\n",
            (int)t->kind, t->seeds, t->whole, t->unchanged, t->ahead, t->unsure, t->others);
    fclose(f);
}

static void walk_through(fault_kind kind) {
    tally t = { .kind = kind };
    testing_for_seeds(SEEDS, run_seed, &t);
    report(&t);
}

static void steps_survive_lost_and_repeated_frames(void **state) {
    (void)state;
    walk_through(LOSSY);
}

static void steps_are_whole_or_reported_when_workers_crash(void **state) {
    (void)state;
    walk_through(CRASHES);
}

static void steps_are_whole_or_reported_when_workers_stop(void **state) {
    (void)state;
    walk_through(STOPS);
}

static void steps_are_whole_or_reported_when_workers_are_partitioned(void **state) {
    (void)state;
    walk_through(PARTITIONS);
}

static void steps_are_whole_or_reported_under_all_faults(void **state) {
    (void)state;
    walk_through(ALL);
}

static void owners_agree_on_a_step_whose_trainer_resumes(void **state) {
    (void)state;
    walk_through(DOUBTS);
}

GW_TESTS_WITH_LIMIT(steps_fault_sim, 300, steps_survive_lost_and_repeated_frames,
                    steps_are_whole_or_reported_when_workers_crash,
                    steps_are_whole_or_reported_when_workers_stop,
                    steps_are_whole_or_reported_when_workers_are_partitioned,
                    steps_are_whole_or_reported_under_all_faults,
                    owners_agree_on_a_step_whose_trainer_resumes);
