// Random programs of nested scopes and calls, which all members run, in the simulator. Members make mistakes, and each
// continues in a way of its own after an error. Each call contributes a value of its own, so that a sum that is OK
// shows whether the same calls were added (GRP-6).
#include "base/map.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { NODES = 24, DEPTH = 4, MISTAKES_MAX = 3, FUTURES = 24 };

typedef enum mistake {
    NONE,
    CANCELS,
    OTHER_SHAPE,
    REFUSED,
    SCOPE_FAILED,
    SHORT_DEADLINE,
    MISTAKES
} mistake;

// What a member does after an error in a block.
typedef enum reaction {
    LEAVES,  // skips the rest of the block
    CLEARS,  // clears the scope, and continues in it
    KEEPS,   // continues in the failed scope
    REACTIONS
} reaction;

typedef enum futures { WAITED_AT_ONCE, WAITED_LATER, DROPPED, FUTURE_FORMS } futures;

// A block of calls and blocks: the nodes after it, up to |end|. The |end| of a call is the next node.
typedef struct node {
    bool is_block;
    bool is_of_two;  // a call of two tensors, which are two collectives
    int end;
} node;

typedef struct program {
    uint64_t seed;
    int members;
    node nodes[NODES];
    struct {
        mistake mistake;
        int who, at;
    } mistakes[MISTAKES_MAX];
    bool alike;  // all members react, and wait for futures, in the same way
} program;

typedef struct player {
    const program *program;
    gw_group *group;
    int rank;
    uint64_t random;
} player;

static uint64_t draw(uint64_t *random, uint64_t below) {
    *random = hash_u64(*random + 1);
    return *random % below;
}

// ---- Programs -----------------------------------------------------------------------------------

static int fill(program *p, uint64_t *random, int at, int end, int depth) {
    while (at < end) {
        int left = end - at;
        bool is_block = depth < DEPTH && left > 2 && draw(random, 3) == 0;
        int size = is_block ? 2 + (int)draw(random, (uint64_t)left - 1) : 1;
        p->nodes[at] = (node){ is_block, draw(random, 4) == 0, at + size };
        if (is_block) fill(p, random, at + 1, at + size, depth + 1);
        at += size;
    }
    return at;
}

static program choose(uint64_t seed) {
    uint64_t random = hash_u64(seed);
    program p = { .seed = seed, .members = 2 + (int)draw(&random, 3) };
    fill(&p, &random, 0, NODES, 0);
    for (int i = 0; i < MISTAKES_MAX; i++) {
        p.mistakes[i].mistake = (mistake)draw(&random, MISTAKES);
        p.mistakes[i].who = (int)draw(&random, (uint64_t)p.members);
        p.mistakes[i].at = (int)draw(&random, NODES);
    }
    p.alike = draw(&random, 2);
    return p;
}

// ---- Members ------------------------------------------------------------------------------------

static uint64_t choice(const player *x, int at, uint64_t what, uint64_t below) {
    uint64_t who = x->program->alike ? 0 : (uint64_t)x->rank + 1;
    return hash_u64(hash_u64(x->program->seed ^ what) + who * 1000 + (uint64_t)at) % below;
}

static mistake mistake_of(const player *x, int at) {
    for (int i = 0; i < MISTAKES_MAX; i++)
        if (x->program->mistakes[i].who == x->rank && x->program->mistakes[i].at == at)
            return x->program->mistakes[i].mistake;
    return NONE;
}

static gw_future *start(const player *x, gw_scope *s, int at) {
    mistake m = mistake_of(x, at);
    gw_tensor *own = gw_full(s, GW_I64, at + 1, m == OTHER_SHAPE ? 2 : 1);
    if (m == SCOPE_FAILED) gw_fail(s, GW_INVALID, "this is wrong on purpose");
    gw_reduce_op op = m == REFUSED ? (gw_reduce_op)77 : GW_SUM;
    int64_t timeout_ms = m == SHORT_DEADLINE ? 1 : 20000;
    gw_tensor *both[] = { own, gw_full(s, GW_I64, at + 1, 1) };
    gw_future *f =
        x->program->nodes[at].is_of_two
            ? gw_all_reduce_coalesced_async(s, x->group, both, 2, op, .timeout_ms = timeout_ms)
            : gw_all_reduce_async(s, x->group, own, op, .timeout_ms = timeout_ms);
    if (m == CANCELS) gw_cancel(s, f);
    return f;
}

static void check_sum(const player *x, gw_scope *s, int at, gw_value v) {
    int64_t sum = gw_item_int(s, gw_tensor_of(s, v));
    if (gw_ok(s) && sum != x->program->members * (at + 1))
        fail_msg("w%d, call %d: the sum is %d for %d", x->rank, at, (int)sum,
                 x->program->members * (at + 1));
}

static void look(const player *x, gw_scope *s, int at, gw_future *f) {
    if (!f) return;
    gw_value v = gw_wait(s, f);
    if (!gw_ok(s)) return;
    if (!x->program->nodes[at].is_of_two) check_sum(x, s, at, v);
    for (int i = 0; i < 2 && x->program->nodes[at].is_of_two; i++)
        check_sum(x, s, at, gw_list_get(s, gw_list_of(s, v), i));
}

// False: the rest of the block is skipped.
static bool continues(const player *x, gw_scope *s, int at) {
    if (gw_ok(s)) return true;
    reaction r = (reaction)choice(x, at, 1, REACTIONS);
    if (r == CLEARS) gw_scope_clear(s);
    return r != LEAVES;
}

// Some blocks pass their errors to the enclosing one.
static void close_block(const player *x, gw_scope *s, gw_scope *inner, int at) {
    gw_error e = gw_scope_close(inner);
    if (e.status && !choice(x, at, 3, 3)) scope_fail_with(s, &e);
}

static void run_block(const player *x, gw_scope *s, int at, int end) {
    gw_future *all[NODES] = { NULL };
    int first = at;
    for (; at < end; at = x->program->nodes[at].end) {
        const node *n = &x->program->nodes[at];
        if (n->is_block) {
            gw_scope *inner = gw_scope_open(s);
            run_block(x, inner, at + 1, n->end);
            close_block(x, s, inner, at);
        } else {
            futures form = (futures)choice(x, at, 4, FUTURE_FORMS);
            gw_future *f = start(x, s, at);
            if (form == WAITED_AT_ONCE && gw_ok(s)) look(x, s, at, f);
            if (form == DROPPED && gw_ok(s)) gw_drop(s, f);
            if (form == WAITED_LATER) all[at] = f;
        }
        if (!continues(x, s, at)) break;
    }
    for (int i = first; i < end; i++) {
        if (gw_ok(s)) look(x, s, i, all[i]);
        if (!gw_ok(s) && choice(x, i, 5, 2)) gw_scope_clear(s);
    }
}

static void play(gw_scope *root, int rank, void *context) {
    player x = { .program = context, .rank = rank };
    x.group = gw_group_world(root, .timeout_ms = 20000);
    gw_scope *s = gw_scope_open(root);
    run_block(&x, s, 0, NODES);
    (void)!gw_scope_close(s).status;
    gw_scope_clear(root);
}

static void run_with(uint64_t seed, void *context) {
    (void)context;
    program p = choose(seed);
    testing_note("seed %d: %d members; SEED=%d repeats it", (int)seed, p.members, (int)seed);
    cluster_run(
        seed,
        (cluster_options){ .world_size = p.members, .network = sim_varied(seed, 0), .fails = true },
        play, &p);
}

static void no_sum_is_of_different_calls(void **state) {
    (void)state;
    testing_for_seeds(1000, run_with, NULL);
}

GW_TESTS(group_programs_sim, no_sum_is_of_different_calls);
