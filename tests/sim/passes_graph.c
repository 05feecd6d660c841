#include "base/map.h"
#include "base/scope.h"
#include "passes.h"
#include "agent/state/agent.h"
#include "testing/testing.h"

#include <math.h>
#include <string.h>

passes_world *passes_now;

enum { DEPTH = 2, SMALL = 5 };

static const double EXACT_MAX = 1e14;  // all below are exact, and so are their sums

// ---- Bodies -------------------------------------------------------------------------------------

typedef struct play {
    gw_scope *s;
    passes_world *world;
    int rank, depth;
    bool here;         // all bodies run in this process
    int64_t hurry_ms;  // timeout of a first try; 0: there is only one try
    bool was_quick;    // the first try has succeeded
    uint64_t random;
    gw_tensor *values[PASSES_VALUES_MAX];
    int count;
} play;

static uint64_t draw(play *p, uint64_t below) {
    p->random = hash_u64(p->random + 1);
    return p->random % below;
}

static gw_tensor *some(play *p) {
    return p->values[draw(p, (uint64_t)p->count)];
}

static void keep(play *p, gw_tensor *x) {
    if (p->count < PASSES_VALUES_MAX) p->values[p->count++] = x;
}

static void work(play *p);

// The operators of a body on its two arguments; its results are the last values.
static void play_body(gw_scope *s, passes_world *w, int rank, bool here, uint64_t seed, int depth,
                      gw_tensor *x, gw_tensor *y, play *out) {
    *out = (play){
        .s = s, .world = w, .rank = rank, .depth = depth, .here = here, .random = seed, .count = 2
    };
    out->values[0] = x;
    out->values[1] = y;
    work(out);
}

static gw_tensor *last(const play *p, int i) {
    return p->values[p->count - 1 - i];
}

static gw_value serve(gw_scope *s, const gw_args *a, gw_tensor *x, bool single) {
    play p;
    int rank = ((const agent *)s->agent)->rank;
    play_body(s, passes_now, rank, false, (uint64_t)gw_arg_int(s, a, 0), (int)gw_arg_int(s, a, 1),
              x, gw_arg_tensor(s, a, 3), &p);
    if (!gw_ok(s)) return gw_none();
    if (single) return gw_value_of(last(&p, 0));
    gw_list *results = gw_list_open(s);
    for (int i = 0; i < 2; i++) gw_list_add(s, results, last(&p, i));
    return gw_value_of(results);
}

GW_FUNCTION(passes_two, GW_POOL, "int, int, tensor, tensor") {
    return serve(s, a, gw_arg_tensor(s, a, 2), false);
}

GW_FUNCTION(passes_two_inline, GW_INLINE, "int, int, tensor, tensor") {
    return serve(s, a, gw_arg_tensor(s, a, 2), false);
}

GW_FUNCTION(passes_one, GW_POOL, "int, int, tensor, tensor") {
    return serve(s, a, gw_arg_tensor(s, a, 2), true);
}

// The reference is passed on before its value is used, or made.
GW_FUNCTION(passes_fetched, GW_POOL, "int, int, rref, tensor") {
    return serve(s, a, gw_to_here(s, gw_arg_rref(s, a, 2)), true);
}

GW_FUNCTION(passes_read_grads, GW_INLINE, "") {
    gw_list *grads = gw_list_open(s);
    int rank = ((const agent *)s->agent)->rank;
    for (int i = 0; i < PASSES_WEIGHTS; i++) {
        gw_tensor *g = gw_grad_find(s, passes_now->weights[rank][i]);
        gw_list_add_with(s, grads, g ? gw_value_of_tensor(g) : gw_none());
    }
    return gw_value_of(grads);
}

// ---- Their calls --------------------------------------------------------------------------------

typedef struct errand {
    int rank;
    int64_t seed, depth;
    gw_tensor *x, *y;
} errand;

static int draw_rank(play *p) {
    int rank;
    do {
        rank = (int)draw(p, (uint64_t)p->world->worker_count);
    } while (p->world->without >> rank & 1);
    return rank;
}

static errand draw_errand(play *p) {
    errand e = { .rank = draw_rank(p), .seed = (int64_t)(draw(p, 1 << 30)), .depth = p->depth - 1 };
    e.x = some(p);
    e.y = some(p);
    if (draw(p, 8) == 0) e.y = gw_detach(p->s, e.y);
    return e;
}

static void run_here(play *p, const errand *e, play *out) {
    play_body(p->s, p->world, e->rank, true, (uint64_t)e->seed, (int)e->depth, e->x, e->y, out);
}

static void call_two(play *p) {
    errand e = draw_errand(p);
    const char *f = e.depth == 0 && draw(p, 2) ? "passes_two_inline" : "passes_two";
    play inner;
    gw_tensor *results[2];
    if (p->here) {
        run_here(p, &e, &inner);
        for (int i = 0; i < 2; i++) results[i] = last(&inner, i);
    } else {
        gw_list *l = gw_list_of(p->s, gw_rpc_sync(p->s, e.rank, f, e.seed, e.depth, e.x, e.y));
        for (int i = 0; i < 2; i++)
            results[i] = gw_tensor_of(p->s, gw_ok(p->s) ? gw_list_get(p->s, l, i) : gw_none());
    }
    uint64_t used = draw(p, 4);
    if (used != 1) keep(p, results[0]);
    if (used != 2) keep(p, results[1]);
}

// The promise of one is an argument of another.
static void call_with_promise(play *p) {
    errand first = draw_errand(p), second = draw_errand(p);
    play inner;
    if (p->here) {
        run_here(p, &first, &inner);
        second.x = last(&inner, 0);
        run_here(p, &second, &inner);
        keep(p, last(&inner, 0));
        return;
    }
    gw_future *f =
        gw_rpc_async(p->s, first.rank, "passes_one", first.seed, first.depth, first.x, first.y);
    if (p->world->in_order) gw_wait(p->s, f);
    keep(p, gw_tensor_of(p->s, gw_rpc_sync(p->s, second.rank, "passes_one", second.seed,
                                           second.depth, f, second.y)));
}

static void call_by_reference(play *p) {
    errand first = draw_errand(p), second = draw_errand(p);
    uint64_t how = draw(p, 4);
    play inner;
    if (p->here) {
        run_here(p, &first, &inner);
        gw_tensor *x = last(&inner, 0);
        if (how != 1) keep(p, x);
        if (how == 2) keep(p, x);
        second.x = x;
        if (how == 0) return;
        run_here(p, &second, &inner);
        keep(p, last(&inner, 0));
        return;
    }
    gw_rref *r =
        gw_remote(p->s, first.rank, "passes_one", first.seed, first.depth, first.x, first.y);
    if (how != 1) keep(p, gw_to_here(p->s, r));
    if (how == 2) keep(p, gw_to_here(p->s, r));
    if (how == 0) return;
    if (p->world->in_order) gw_to_here(p->s, r);
    keep(p, gw_tensor_of(p->s, gw_rpc_sync(p->s, second.rank, "passes_fetched", second.seed,
                                           second.depth, r, second.y)));
}

// A call whose result is not used, and perhaps not waited for.
static void call_for_nothing(play *p) {
    errand e = draw_errand(p);
    bool waits = draw(p, 2);
    if (p->here) return;
    gw_future *f = gw_rpc_async(p->s, e.rank, "passes_one", e.seed, e.depth, e.x, e.y);
    if (waits || p->world->in_order) gw_wait(p->s, f);
}

static void call_at_once(play *p) {
    errand e[3];
    gw_future *fs[3];
    play inner;
    for (int i = 0; i < 3; i++) e[i] = draw_errand(p);
    for (int i = 0; i < 3 && !p->here; i++) {
        fs[i] = gw_rpc_async(p->s, e[i].rank, "passes_one", e[i].seed, e[i].depth, e[i].x, e[i].y);
        if (p->world->in_order) gw_wait(p->s, fs[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (p->here) run_here(p, &e[i], &inner);
        keep(p, p->here ? last(&inner, 0) : gw_tensor_of(p->s, gw_wait(p->s, fs[i])));
    }
}

// ---- Their steps --------------------------------------------------------------------------------

static void weigh(play *p) {
    keep(p, gw_mul(p->s, some(p), p->world->weights[p->rank][draw(p, PASSES_WEIGHTS)]));
}

static void add(play *p) {
    gw_tensor *x = some(p);
    keep(p, gw_add(p->s, x, some(p)));
}

static void use_a_part(play *p) {
    gw_tensor *x = gw_add(p->s, some(p), p->world->weights[p->rank][0]);
    keep(p, gw_select(p->s, x, 0, (int64_t)draw(p, PASSES_SIZE)));
}

static void use_a_half(play *p) {
    gw_tensor *x = gw_add(p->s, some(p), p->world->weights[p->rank][1]);
    gw_tensor *half = gw_slice(p->s, x, 0, (int64_t)draw(p, 2), 4, 2);
    keep(p, gw_sum(p->s, half));
}

static void multiply(play *p) {
    gw_tensor *x = some(p);
    keep(p, p->random % 4 ? gw_neg(p->s, x) : gw_mul(p->s, x, some(p)));
}

static void work(play *p) {
    static void (*const steps[])(play *
                                 p) = { weigh, weigh, add, use_a_part, use_a_half, multiply };
    static void (*const calls[])(play * p) = { call_two,          call_two,
                                               call_with_promise, call_by_reference,
                                               call_for_nothing,  call_at_once };
    int steps_count = 1 + (int)draw(p, 3), calls_count = p->depth > 0 ? 1 + (int)draw(p, 2) : 0;
    weigh(p);
    for (int i = 0; i < steps_count && gw_ok(p->s); i++)
        steps[draw(p, sizeof steps / sizeof *steps)](p);
    for (int i = 0; i < calls_count && gw_ok(p->s); i++)
        calls[draw(p, sizeof calls / sizeof *calls)](p);
    add(p);
    weigh(p);
}

// ---- Passes -------------------------------------------------------------------------------------

static gw_tensor *sum_some(play *p) {
    gw_tensor *loss = gw_sum(p->s, last(p, 0));
    for (uint64_t i = draw(p, 3); i-- > 0;) loss = gw_add(p->s, loss, gw_sum(p->s, some(p)));
    return loss;
}

static void walk_retained(play *p) {
    for (uint64_t i = 1 + draw(p, 2); i-- > 0;)
        gw_backward(p->s, sum_some(p), .retain_graph = true);
    gw_backward(p->s, sum_some(p));
}

// A failed pass leaves the graph unchanged.
static void walk_again(play *p) {
    gw_tensor *loss = sum_some(p);
    for (int tries = 0; p->hurry_ms && tries < 2 && gw_ok(p->s) && !p->was_quick; tries++) {
        gw_scope *t = gw_scope_open(p->s);
        gw_scope_set_timeout(t, p->hurry_ms);
        gw_backward(t, loss);
        if (!gw_ok(t) && !p->here && p->world->failed) p->world->failed(t);
        gw_error error = gw_scope_close(t);
        p->was_quick = !error.status;
        if (error.status && error.status != GW_TIMEOUT) scope_fail_with(p->s, &error);
    }
    if (!p->was_quick) gw_backward(p->s, loss);
}

static void walk_roots(play *p) {
    gw_tensor *roots[3];
    for (int i = 0; i < 3; i++) roots[i] = gw_sum(p->s, i ? last(p, i - 1) : sum_some(p));
    for (int i = 0; i < 3; i++)
        if (gw_ok(p->s) && !gw_needs_grad(roots[i])) roots[i] = roots[1];
    gw_backward_roots(p->s, roots, 3);
}

static void walk_given(play *p) {
    gw_tensor *root = gw_mul(p->s, last(p, 0), p->world->weights[p->rank][2]);
    gw_tensor *gradient = gw_cumsum(p->s, gw_ones(p->s, GW_F32, PASSES_SIZE), 0);
    gw_backward(p->s, root, .gradient = gradient);
}

// The second root is an input of other results.
static void walk_chosen(play *p, gw_tensor **inputs) {
    gw_backward(p->s, sum_some(p), .inputs = inputs, .input_count = 2);
}

static void copy_gradient(gw_scope *s, passes_grads *out, int i, gw_tensor *g) {
    out->has[i] = g != NULL;
    if (!g || !gw_ok(s)) return;
    g = gw_contiguous(s, g);
    assert_int_equal(gw_numel(g), PASSES_SIZE);
    memcpy(out->at[i], gw_data(g), sizeof out->at[i]);
}

static void read_weights(play *p, int rank, passes_grads *out) {
    int first = PASSES_INPUTS + rank * PASSES_WEIGHTS;
    if (p->here || rank == p->rank) {
        for (int i = 0; i < PASSES_WEIGHTS; i++)
            copy_gradient(p->s, out, first + i, gw_grad_find(p->s, p->world->weights[rank][i]));
        return;
    }
    gw_list *l = gw_list_of(p->s, gw_rpc_sync(p->s, rank, "passes_read_grads"));
    for (int i = 0; i < PASSES_WEIGHTS && gw_ok(p->s); i++) {
        gw_value v = gw_list_get(p->s, l, i);
        copy_gradient(p->s, out, first + i, v.kind == GW_TENSOR ? v.as.tensor : NULL);
    }
}

static double number(const passes_world *w, uint64_t seed) {
    uint64_t x = hash_u64(seed);
    return w->is_inexact ? (double)(x % 1000003) / 500000.0 - 1.0 : (double)(x % SMALL) - 2;
}

static gw_tensor *open_leaf(gw_scope *s, const passes_world *w, uint64_t seed, bool wants) {
    double values[PASSES_SIZE];
    for (int i = 0; i < PASSES_SIZE; i++) values[i] = number(w, seed * 16 + (uint64_t)i);
    gw_tensor *x = gw_from(s, values, PASSES_SIZE);
    return wants ? gw_requires_grad(s, x) : x;
}

void passes_open_weights(gw_scope *root, passes_world *w, int rank) {
    for (int i = 0; i < PASSES_WEIGHTS; i++)
        w->weights[rank][i] =
            open_leaf(root, w, (uint64_t)(1000 + rank * PASSES_WEIGHTS + i), true);
}

static void play_all(play *p, uint64_t seed, passes_grads *out) {
    gw_tensor *inputs[PASSES_INPUTS];
    *out = (passes_grads){ 0 };
    p->random = hash_u64(seed);
    passes_kind kind = (passes_kind)draw(p, PASSES_KIND_COUNT);
    for (int i = 0; i < PASSES_INPUTS; i++)
        inputs[i] = open_leaf(p->s, p->world, seed * 4 + (uint64_t)i, i < 2);
    for (int batch = 0; batch < (kind == PASSES_BATCHES ? 3 : 1) && gw_ok(p->s); batch++) {
        p->depth = DEPTH;
        p->count = PASSES_INPUTS;
        for (int i = 0; i < PASSES_INPUTS; i++) p->values[i] = inputs[i];
        work(p);
        gw_tensor *chosen[] = { inputs[0], last(p, 1) };
        if (kind == PASSES_CHOSEN && gw_ok(p->s) && !gw_needs_grad(chosen[1]))
            chosen[1] = inputs[1];
        switch (kind) {
        case PASSES_RETAINED: walk_retained(p); break;
        case PASSES_ROOTS: walk_roots(p); break;
        case PASSES_GIVEN: walk_given(p); break;
        case PASSES_CHOSEN: walk_chosen(p, chosen); break;
        default: walk_again(p);
        }
    }
    for (int i = 0; i < PASSES_INPUTS && gw_ok(p->s); i++)
        copy_gradient(p->s, out, i, gw_grad_find(p->s, inputs[i]));
    for (int rank = 0; rank < p->world->worker_count && gw_ok(p->s); rank++)
        if (!(p->world->without >> rank & 1)) read_weights(p, rank, out);
}

void passes_play(gw_scope *s, int rank, uint64_t seed, passes_grads *out) {
    play p = { .s = s, .world = passes_now, .rank = rank };
    play_all(&p, seed, out);
}

bool passes_play_again(gw_scope *s, int rank, uint64_t seed, int64_t hurry_ms, passes_grads *out) {
    play p = { .s = s, .world = passes_now, .rank = rank, .hurry_ms = hurry_ms };
    play_all(&p, seed, out);
    return !p.was_quick;
}

void passes_play_here(gw_scope *s, passes_world *w, int rank, uint64_t seed, passes_grads *out) {
    play p = { .s = s, .world = w, .rank = rank, .here = true };
    play_all(&p, seed, out);
}

// ---- Other initiators ---------------------------------------------------------------------------

// The body returns a tensor of a graph that its own pass has used up.
GW_FUNCTION(passes_spent, GW_POOL, "tensor") {
    int rank = ((const agent *)s->agent)->rank;
    gw_tensor *x = gw_arg_tensor(s, a, 0), *w = passes_now->weights[rank][0];
    gw_tensor *y = gw_mul(s, w, gw_detach(s, x));
    gw_scope *own = gw_scope_open(s);
    gw_backward(own, gw_sum(own, y));
    gw_scope_close_up(own);
    return gw_value_of(gw_add(s, x, y));
}

void passes_play_spent(gw_scope *s, int rank, uint64_t seed) {
    play p = { .s = s, .world = passes_now, .rank = rank, .random = hash_u64(seed), .depth = 1 };
    for (int i = 0; i < PASSES_INPUTS; i++) keep(&p, open_leaf(s, p.world, seed + 70, true));
    int to = draw_rank(&p);
    keep(&p, gw_tensor_of(s, gw_rpc_sync(s, to, "passes_spent", some(&p))));
    gw_tensor *spent = last(&p, 0);
    work(&p);
    gw_backward(s, gw_add(s, gw_sum(s, spent), sum_some(&p)));
}

GW_FUNCTION(passes_play_inside, GW_POOL, "int") {
    passes_grads got;
    passes_play(s, ((const agent *)s->agent)->rank, (uint64_t)gw_arg_int(s, a, 0), &got);
    return gw_value_of(true);
}

gw_future *passes_play_on(gw_scope *s, int to, uint64_t seed) {
    return gw_rpc_async(s, to, "passes_play_inside", (int64_t)seed);
}

void passes_expect_equal(const passes_grads *got, const passes_grads *expected) {
    for (int i = 0; i < PASSES_INPUTS + PASSES_WORKERS_MAX * PASSES_WEIGHTS; i++) {
        if (got->has[i] != expected->has[i])
            fail_msg("gradient %d is %s", i, got->has[i] ? "there" : "missing");
        for (int k = 0; k < PASSES_SIZE && got->has[i]; k++) {
            assert_true(fabs(expected->at[i][k]) < EXACT_MAX);
            if (memcmp(&got->at[i][k], &expected->at[i][k], sizeof(double)))
                fail_msg("gradient %d[%d] is %.17g, not %.17g", i, k, got->at[i][k],
                         expected->at[i][k]);
        }
    }
}
