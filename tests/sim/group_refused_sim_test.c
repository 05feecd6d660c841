// Calls of collectives that one member refuses, in the simulator: all members get the error in that step, and pair the
// same steps from then on.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3 };

// ---- Collectives --------------------------------------------------------------------------------

typedef struct arguments {
    gw_tensor *x;
    gw_list *list;
    gw_tensor *xs[2];
    int count, root;
    gw_reduce_op op;
    gw_collective_options o;
} arguments;

#define COLLECTIVE(name, ...)                                                                      \
    static void name##_waits(gw_scope *s, gw_group *g, const arguments *a) {                       \
        gw_##name##_with(s, g, __VA_ARGS__);                                                       \
    }                                                                                              \
    static void name##_starts(gw_scope *s, gw_group *g, const arguments *a) {                      \
        gw_wait(s, gw_##name##_async_with(s, g, __VA_ARGS__));                                     \
    }

COLLECTIVE(all_reduce, a->x, a->op, a->o)
COLLECTIVE(reduce, a->x, a->op, a->root, a->o)
COLLECTIVE(broadcast, a->x, a->root, a->o)
COLLECTIVE(all_gather, a->x, a->o)
COLLECTIVE(all_gather_list, a->x, a->o)
COLLECTIVE(gather_to, a->x, a->root, a->o)
COLLECTIVE(scatter_from, a->list, a->root, a->o)
COLLECTIVE(reduce_scatter, a->x, a->op, a->o)
COLLECTIVE(all_to_all, a->x, a->o)
COLLECTIVE(barrier, a->o)
COLLECTIVE(monitored_barrier, a->o)
COLLECTIVE(all_reduce_coalesced, a->xs, a->count, a->op, a->o)
COLLECTIVE(broadcast_coalesced, a->xs, a->count, a->root, a->o)
COLLECTIVE(all_gather_coalesced, a->xs, a->count, a->o)
COLLECTIVE(gather_to_coalesced, a->xs, a->count, a->root, a->o)
COLLECTIVE(reduce_scatter_coalesced, a->xs, a->count, a->op, a->o)
COLLECTIVE(all_gather_value, gw_value_of(3), a->o)
COLLECTIVE(gather_value_to, gw_value_of(3), a->root, a->o)
COLLECTIVE(broadcast_value, gw_value_of(3), a->root, a->o)
COLLECTIVE(scatter_value_from, a->list, a->root, a->o)

// The arguments of each that may be wrong, in addition to options.
enum { ONE = 1, MANY = 2, LIST = 4, OP = 8, ROOT = 16 };

typedef struct collective {
    const char *name;
    int takes;
    void (*calls[2])(gw_scope *s, gw_group *g, const arguments *a);
} collective;

#define ROW(name, takes)                                                                           \
    {                                                                                              \
#name, takes, {                                                                            \
            name##_waits, name##_starts                                                            \
        }                                                                                          \
    }

static const collective collectives[] = {
    ROW(all_reduce, ONE | OP),
    ROW(reduce, ONE | OP | ROOT),
    ROW(broadcast, ONE | ROOT),
    ROW(all_gather, ONE),
    ROW(all_gather_list, ONE),
    ROW(gather_to, ONE | ROOT),
    ROW(scatter_from, LIST | ROOT),
    ROW(reduce_scatter, ONE | OP),
    ROW(all_to_all, ONE),
    ROW(barrier, 0),
    ROW(monitored_barrier, 0),
    ROW(all_reduce_coalesced, MANY | OP),
    ROW(broadcast_coalesced, MANY | ROOT),
    ROW(all_gather_coalesced, MANY),
    ROW(gather_to_coalesced, MANY | ROOT),
    ROW(reduce_scatter_coalesced, MANY | OP),
    ROW(all_gather_value, 0),
    ROW(gather_value_to, ROOT),
    ROW(broadcast_value, ROOT),
    ROW(scatter_value_from, LIST | ROOT),
};

enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

static bool is_listed(const char *name, size_t size) {
    static const char async[] = "_async";
    size_t end = sizeof async - 1;
    if (size > end && memcmp(name + size - end, async, end) == 0) size -= end;
    for (int i = 0; i < COLLECTIVES; i++)
        if (strlen(collectives[i].name) == size && memcmp(collectives[i].name, name, size) == 0)
            return true;
    return false;
}

// Each function of the header that takes options of collectives is in the table.
static void the_table_has_all_collectives(void **state) {
    (void)state;
    FILE *in = fopen(GW_SOURCE_DIR "/include/gradwire/collective.h", "r");
    assert_non_null(in);
    static char text[1 << 17];
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    int found = 0;
    for (char *at = text; (at = strstr(at, "GW_API ")); at++) {
        char *end = strchr(at, ';'), *name = strstr(at, "GW_CALLS(gw_"), *with;
        if (!end || !name || name > end) continue;
        *end = '\0';
        name += sizeof "GW_CALLS(gw_" - 1;
        with = strstr(name, "_with)");
        if (with && strstr(at, "gw_collective_options options")) {
            if (!is_listed(name, (size_t)(with - name))) fail_msg("%.*s", (int)(with - name), name);
            found++;
        }
        *end = ';';
    }
    assert_int_equal(found, 2 * COLLECTIVES);
}

// ---- Refusals -----------------------------------------------------------------------------------

typedef enum refusal {
    BAD_TIMEOUT,
    BAD_FACTOR,
    BAD_SIZES,
    BAD_INTO,
    BAD_TENSOR,
    BAD_COUNT,
    BAD_ITEMS,
    BAD_OP,
    BAD_ROOT,
    REFUSALS
} refusal;

static const int needed[REFUSALS] = {
    [BAD_TENSOR] = ONE, [BAD_COUNT] = MANY, [BAD_ITEMS] = LIST, [BAD_OP] = OP, [BAD_ROOT] = ROOT
};

static void spoil(gw_scope *s, arguments *a, refusal how, const int64_t *no_sizes) {
    switch (how) {
    case BAD_TIMEOUT: a->o.timeout_ms = -5; break;
    case BAD_FACTOR: a->o.factor = (double)NAN; break;
    case BAD_SIZES: a->o.sizes = no_sizes; break;
    case BAD_INTO: a->o.into = gw_full(s, GW_F64, 0, 1, 2, 3, 4); break;
    case BAD_TENSOR: a->x = NULL; break;
    case BAD_COUNT: a->count = -1; break;
    case BAD_ITEMS: a->list = NULL; break;
    case BAD_OP: a->op = (gw_reduce_op)99; break;
    default: a->root = MEMBERS; break;
    }
}

// A member succeeds if all members with which it exchanges values have entered. If the root receives the values, all
// but the root may succeed. If the root sends them, all may succeed unless the root refuses.
static bool may_succeed(const collective *c, int rank, int who) {
    bool to_root = strstr(c->name, "reduce") || strstr(c->name, "gather");
    return c->takes & ROOT && (to_root ? rank != 0 : who != 0);
}

static void refuse(gw_scope *root, gw_group *g, int rank, int who, const collective *c, int form,
                   refusal how) {
    static const int64_t no_sizes[MEMBERS] = { -1, -1, -1 };
    gw_scope *s = gw_scope_open(root);
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < MEMBERS; i++) gw_list_add(s, items, gw_full(s, GW_F32, rank, 2));
    gw_tensor *x = gw_full(s, GW_F32, rank, 2 * MEMBERS);
    arguments a = { .x = x,
                    .list = rank == 0 ? items : NULL,
                    .xs = { x, gw_full(s, GW_F32, rank, MEMBERS) },
                    .count = 2,
                    .o = GW_OPTIONS(gw_collective_options, .timeout_ms = 60000) };
    assert_true(gw_ok(s));
    if (rank == who) spoil(s, &a, how, no_sizes);
    c->calls[form](s, g, &a);
    gw_error e = gw_scope_close(s);
    bool is_late =
        how == BAD_INTO && c->takes & LIST;  // whether the result fits is known when it has arrived
    bool succeeds = e.status == GW_OK && rank != who && (is_late || may_succeed(c, rank, who));
    if (e.status != GW_INVALID && !succeeds)
        fail_msg("w%d: %s, form %d, refusal %d by w%d: %s", rank, c->name, form, how, who, e.text);
}

static void add(gw_scope *root, gw_group *g, int rank, int step) {
    gw_scope *s = gw_scope_open(root);
    double got = gw_item(s, gw_all_reduce(s, g, gw_full(s, GW_F32, 10 * step + rank), GW_SUM));
    gw_error e = gw_scope_close(s);
    if (e.status || got != MEMBERS * 10 * step + 3)
        fail_msg("w%d step %d: %g, %s", rank, step, got, e.text);
}

static void refuse_each(gw_scope *root, int rank, void *context) {
    uint64_t seed = *(uint64_t *)context;
    const collective *c = &collectives[seed % COLLECTIVES];
    gw_group *g = gw_group_world(root);
    int step = 0;
    for (int form = 0; form < 2; form++)
        for (int how = 0; how < REFUSALS; how++) {
            if (needed[how] & ~c->takes) continue;
            bool is_of_root =
                how == BAD_ITEMS || (c->takes & ROOT && (how == BAD_TENSOR || how == BAD_INTO));
            int who = is_of_root ? 0 : (int)((seed / COLLECTIVES + (uint64_t)how) % MEMBERS);
            refuse(root, g, rank, who, c, form, (refusal)how);
            add(root, g, rank, ++step);
        }
}

static void refuse_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                refuse_each, &seed);
}

static void all_get_a_refusal_in_that_step(void **state) {
    (void)state;
    testing_for_seeds(3 * COLLECTIVES, refuse_with_seed, NULL);
}

// With as many under way as there may be.
static void call_one_too_many(gw_scope *root, int rank, void *context) {
    (void)context;
    enum { UNDER_WAY = 1024 };
    gw_group *g = gw_group_world(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = gw_full(s, GW_F32, 1, 1);
    gw_future *fs[UNDER_WAY];
    for (int i = 0; rank && i < UNDER_WAY; i++) gw_all_reduce(s, g, x, GW_SUM);
    for (int i = 0; !rank && i < UNDER_WAY; i++) fs[i] = gw_all_reduce_async(s, g, x, GW_SUM);
    assert_true(gw_ok(s));
    gw_scope *t = gw_scope_open(s);
    gw_all_reduce(t, g, x, GW_SUM);
    assert_int_equal(gw_scope_close(t).status, GW_LIMIT);
    if (!rank) gw_wait_all(s, fs, UNDER_WAY);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    add(root, g, rank, 1);
}

static void one_too_many_fails_on_all(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = MEMBERS }, call_one_too_many, NULL);
}

GW_TESTS(group_refused_sim, the_table_has_all_collectives, all_get_a_refusal_in_that_step,
         one_too_many_fails_on_all);
