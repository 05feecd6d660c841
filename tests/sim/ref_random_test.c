// Random programs over several workers: references made, shared, kept in objects, promised and
// dropped in any order. Each value that is read is the right one, and in the end no references are
// left.
#include "base/log.h"
#include "base/map.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { HELD = 6, STEPS = 40 };

// The elements of a value's tensor are its number.
GW_FUNCTION(mix_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 0), 2));
}

GW_FUNCTION(mix_number, GW_INLINE, "tensor") {
    return gw_value_of(gw_item_int(s, gw_select(s, gw_arg_tensor(s, a, 0), 0, 1)));
}

GW_FUNCTION(mix_read, GW_POOL, "rref") {
    gw_tensor *x = gw_to_here(s, gw_arg_rref(s, a, 0));
    return gw_value_of(gw_item_int(s, gw_select(s, x, 0, 0)));
}

GW_FUNCTION(mix_through, GW_POOL, "rref, int") {
    return gw_rpc_sync(s, (int)gw_arg_int(s, a, 1), "mix_read", gw_arg_rref(s, a, 0));
}

// From a body, to a third worker.
GW_FUNCTION(mix_sum_of, GW_POOL, "rref, int") {
    gw_rref *r = gw_arg_rref(s, a, 0);
    return gw_rpc_sync(s, (int)gw_arg_int(s, a, 1), "mix_number", gw_by_value(s, r));
}

GW_FUNCTION(mix_same, GW_INLINE, "rref") {
    return gw_arg(s, a, 0);
}

typedef struct mix_shelf {
    gw_scope *own;
    gw_rref *held[HELD];
} mix_shelf;

GW_CLASS(mix_shelf, mix_shelf_open);

static void mix_shelf_open(gw_scope *own, mix_shelf *self, const gw_args *a) {
    (void)a;
    self->own = own;
}

GW_METHOD(mix_shelf, put, GW_INLINE, "int, rref") {
    gw_set(self->own, &self->held[gw_arg_int(s, a, 0)], gw_arg_rref(s, a, 1));
    return gw_none();
}

GW_METHOD(mix_shelf, get, GW_INLINE, "int") {
    gw_rref *r = self->held[gw_arg_int(s, a, 0)];
    return r ? gw_value_of(r) : gw_none();
}

typedef enum mixing_loss {
    LOSES_NONE,
    LOSES_A_LEAVER,    // worker 2 leaves in the middle
    LOSES_BY_CRASHING  // a worker other than the first ends at any moment
} mixing_loss;

typedef struct mixing {
    uint64_t seed;
    mixing_loss loses;
    sim *sim;
    int node;  // that crashes
} mixing;

typedef struct player {
    gw_scope *root;
    const mixing *mixing;
    uint64_t state;
    int rank, world_size;
    gw_rref *held[HELD];
    int64_t numbers[HELD];  // of held values
    gw_rref *shelf;
    int64_t shelved[HELD];
} player;

static int draw(player *p, int below) {
    p->state = hash_u64(p->state);
    return (int)(p->state % (uint64_t)below);
}

// When a worker is lost, its values may be lost; no other error is allowed.
static bool is_expected(player *p, gw_scope *s) {
    gw_status status = gw_scope_error(s)->status;
    if (sim_is_ghost(s->env)) {
        gw_scope_clear(s);
        return false;
    }
    if (status == GW_OK) return true;
    if (!p->mixing->loses || (status != GW_DISCONNECTED && status != GW_REF_LOST))
        assert_string_equal(gw_scope_error(s)->text, "");
    gw_scope_clear(s);
    return false;
}

static void make(player *p, gw_scope *s, int i) {
    p->numbers[i] = draw(p, 1000000);
    gw_rref *r = draw(p, 5) ? gw_remote(s, draw(p, p->world_size), "mix_make", p->numbers[i])
                            : gw_rref_open(s, gw_full(s, GW_I64, p->numbers[i], 2));
    gw_set(p->root, &p->held[i], r);
}

static void read_somewhere(player *p, gw_scope *s, int i) {
    int to = draw(p, p->world_size), via = draw(p, p->world_size);
    gw_value v = draw(p, 2) ? gw_rpc_sync(s, to, "mix_read", p->held[i])
                            : gw_rpc_sync(s, via, "mix_through", p->held[i], to);
    int64_t number = gw_int_of(s, v);
    if (is_expected(p, s)) assert_int_equal(number, p->numbers[i]);
}

static void read_here(player *p, gw_scope *s, int i) {
    gw_tensor *x = gw_to_here(s, p->held[i]);
    if (is_expected(p, s)) assert_int_equal(gw_item_int(s, gw_select(s, x, 0, 0)), p->numbers[i]);
}

static void exchange(player *p, gw_scope *s, int i) {
    gw_rref *r = gw_rref_of(s, gw_rpc_sync(s, draw(p, p->world_size), "mix_same", p->held[i]));
    if (is_expected(p, s)) gw_set(p->root, &p->held[i], r);
}

static void put_on_shelf(player *p, gw_scope *s, int i) {
    int place = draw(p, HELD);
    gw_rpc_sync(s, p->shelf, "put", place, p->held[i]);
    if (is_expected(p, s)) p->shelved[place] = p->numbers[i];
}

static void take_from_shelf(player *p, gw_scope *s, int i) {
    int place = draw(p, HELD);
    gw_value v = gw_rpc_sync(s, p->shelf, "get", place);
    if (!is_expected(p, s) || v.kind == GW_NONE) return;
    gw_set(p->root, &p->held[i], v.as.rref);
    p->numbers[i] = p->shelved[place];
}

// A future as the argument of another call, and a future that is never waited for.
static void promise(player *p, gw_scope *s) {
    int64_t number = draw(p, 1000);
    gw_future *made = gw_rpc_async(s, draw(p, p->world_size), "mix_make", number);
    gw_future *f = gw_rpc_async(s, draw(p, p->world_size), "mix_number", made);
    int64_t got = draw(p, 3) ? gw_int_of(s, gw_wait(s, f)) : number;
    if (is_expected(p, s)) assert_int_equal(got, number);
}

// The value of a reference as an argument, sent by its owner; sometimes the reference is dropped at
// once.
static void by_value(player *p, gw_scope *s, int i) {
    gw_future *here = gw_by_value(s, p->held[i]);
    gw_future *f = draw(p, 4) ? gw_rpc_async(s, draw(p, p->world_size), "mix_number", here)
                              : gw_rpc_async(s, draw(p, p->world_size), "mix_sum_of", p->held[i],
                                             draw(p, p->world_size));
    if (draw(p, 3) == 0) gw_set(p->root, &p->held[i], NULL);
    int64_t number = p->numbers[i], got = draw(p, 4) ? gw_int_of(s, gw_wait(s, f)) : number;
    if (is_expected(p, s)) assert_int_equal(got, number);
    if (draw(p, 4)) return;
    gw_tensor *x = gw_tensor_of(s, gw_wait(s, here));
    got = gw_item_int(s, gw_select(s, x, 0, 0));
    if (is_expected(p, s)) assert_int_equal(got, number);
}

static void read_later(player *p, gw_scope *s, int i) {
    gw_future *f = gw_to_here_async(s, p->held[i]);
    int64_t number = p->numbers[i];
    if (draw(p, 2)) gw_set(p->root, &p->held[i], NULL);
    if (draw(p, 4) == 0) return;
    gw_tensor *x = gw_tensor_of(s, gw_wait(s, f));
    int64_t got = gw_item_int(s, gw_select(s, x, 0, 0));
    if (is_expected(p, s)) assert_int_equal(got, number);
}

static void step(player *p) {
    gw_scope *s = gw_scope_open(p->root);
    int i = draw(p, HELD), what = draw(p, 13);
    if (!p->held[i] || what == 0) {
        make(p, s, i);
    } else if (what == 1) {
        gw_set(p->root, &p->held[i], NULL);
    } else if (what <= 3) {
        read_somewhere(p, s, i);
    } else if (what == 4) {
        read_here(p, s, i);
    } else if (what == 5) {
        exchange(p, s, i);
    } else if (what <= 7) {
        put_on_shelf(p, s, i);
    } else if (what == 8) {
        take_from_shelf(p, s, i);
    } else if (what == 9) {
        promise(p, s);
    } else if (what <= 11) {
        by_value(p, s, i);
    } else {
        read_later(p, s, i);
    }
    is_expected(p, s);
    gw_scope_close_up(s);
}

static void crash_node(sim *s, void *arg) {
    sim_crash(s, ((mixing *)arg)->node);
}

static void take_sim(sim *s, void *context) {
    ((mixing *)context)->sim = s;
}

// Starts when all have joined.
static void plan_crash(mixing *m) {
    uint64_t at = sim_count(m->sim).decisions + 1 + hash_u64(m->seed) % 6000;
    assert_true(sim_at_decision(m->sim, at, crash_node, m));
}

static void mix(gw_scope *root, int rank, void *context) {
    mixing *m = context;
    player p = { .root = gw_scope_open(root), .mixing = m, .rank = rank };
    if (m->loses == LOSES_BY_CRASHING && rank == 0) plan_crash(m);
    p.state = hash_u64(m->seed) + (uint64_t)rank;
    p.world_size = gw_rpc_world_size(root);
    p.shelf = gw_remote(p.root, draw(&p, p.world_size), "mix_shelf");
    int steps = m->loses == LOSES_A_LEAVER && rank == 2 ? STEPS / 4 : STEPS;
    for (int n = 0; n < steps && !sim_is_ghost(root->env); n++) step(&p);
    gw_error ignored = gw_scope_close(p.root);
    (void)ignored;
}

static void mix_with_seed(uint64_t seed, void *context) {
    mixing m = { .seed = seed, .loses = *(mixing_loss *)context };
    cluster_options o = {
        .world_size = 3 + (int)(seed % 2),
        .threads = 1 + (int)(seed % 3),
        .network = { .delay_max_us = seed % 5 ? 1000 : 20000,
                     .cut_per_million = seed % 3 ? 0 : 10000 },
        .leaves = { [2] = m.loses == LOSES_A_LEAVER },
        .direct = take_sim,
    };
    m.node = 1 + (int)(seed / 4 % (uint64_t)(o.world_size - 1));
    cluster_outcome outcome = cluster_run(seed, o, mix, &m);
    for (int rank = 0; rank < o.world_size; rank++)
        if (!o.leaves[rank] && !outcome.crashed[rank]) assert_int_equal(outcome.owned[rank], 0);
}

static void expect_no_leak(const char *line) {
    if (strstr(line, "leaves the job while")) assert_string_equal(line, "");
}

static void it_finds_every_value_and_keeps_none(void **state) {
    (void)state;
    mixing_loss loses = LOSES_NONE;
    log_hook = expect_no_leak;
    testing_for_seeds(150, mix_with_seed, &loses);
    log_hook = NULL;
}

static void it_loses_only_values_of_a_lost_worker(void **state) {
    (void)state;
    mixing_loss loses = LOSES_A_LEAVER;
    testing_for_seeds(150, mix_with_seed, &loses);
}

static void it_loses_only_values_of_a_crashed_worker(void **state) {
    (void)state;
    mixing_loss loses = LOSES_BY_CRASHING;
    testing_for_seeds(120, mix_with_seed, &loses);
}

GW_TESTS_WITH_LIMIT(ref_random, 120, it_finds_every_value_and_keeps_none,
                    it_loses_only_values_of_a_lost_worker,
                    it_loses_only_values_of_a_crashed_worker);
