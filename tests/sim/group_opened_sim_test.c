// Openings of groups that one member refuses, in the simulator: the other members get its error by their first
// collective in that group, and all pair the same openings from then on.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { MEMBERS = 4, STEPS = 6, REFUSED_STEP = 3 };

typedef enum form { WORLD, NAMED_WORLD, LIST, RANKS, BLOCK, SPLIT, FORMS } form;

typedef enum refusal { FAILED_SCOPE, BAD_TIMEOUT, BAD_BACKEND, HOLDS_NAME, REFUSALS } refusal;

static const char *const texts[] = { "bad batch", "the timeout is -9 ms, but must not be negative",
                                     "nonsense", "\" is open on this worker already" };

typedef struct opened {
    uint64_t seed;
    form form;
    refusal refusal;
    int who;
} opened;

static gw_group *open_one(gw_scope *s, gw_group *all, const gw_worker *workers, form f, int rank,
                          gw_group_open_options o) {
    static const int ranks[] = { 3, 1, 0, 2 };
    switch (f) {
    case WORLD:
    case NAMED_WORLD: return gw_group_world_with(s, o);
    case LIST: return gw_group_open_with(s, workers, MEMBERS, o);
    case RANKS: return gw_group_of_with(s, all, ranks, MEMBERS, o);
    case BLOCK: return gw_group_blocks_with(s, all, MEMBERS, o);
    default: return gw_group_split_with(s, all, 1, -rank, o);
    }
}

// In a step each member opens a group, and contributes the number of the step there.
static void open_in_steps(gw_scope *root, int rank, void *context) {
    const opened *p = context;
    gw_group *all = gw_group_world(root, .name = "all", .timeout_ms = 60000);
    gw_scope *held = gw_scope_open(root);
    gw_worker workers[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) workers[i] = gw_group_worker(root, all, i);
    for (int step = 1; step <= STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        bool is_refused = rank == p->who && step == REFUSED_STEP;
        gw_group_open_options o = GW_OPTIONS(gw_group_open_options, .timeout_ms = 60000);
        if (p->form == NAMED_WORLD || p->refusal == HOLDS_NAME) o.name = "a name";
        if (is_refused && p->refusal == FAILED_SCOPE) gw_fail(s, GW_INVALID, "bad batch");
        if (is_refused && p->refusal == BAD_TIMEOUT) o.timeout_ms = -9;
        if (is_refused && p->refusal == BAD_BACKEND) o.backend = "nonsense";
        if (is_refused && p->refusal == HOLDS_NAME) gw_group_open_with(held, &workers[rank], 1, o);
        gw_group *g = open_one(s, all, workers, p->form, rank, o);
        gw_tensor *sum = gw_all_reduce(s, g, gw_full(s, GW_F32, step), GW_SUM);
        double got = gw_ok(s) ? gw_item(s, sum) : 0;
        gw_error e = gw_scope_close(s);
        if (step == REFUSED_STEP) (void)!gw_scope_close(held).status;  // the name is free
        bool is_right = step == REFUSED_STEP ? strstr(e.text, texts[p->refusal]) != NULL
                                             : !e.status && got == MEMBERS * step;
        if (!is_right) fail_msg("w%d step %d: %g, %s", rank, step, got, e.text);
    }
}

static void open_with_seed(uint64_t seed, void *context) {
    (void)context;
    opened p = { .seed = seed,
                 .form = (form)(seed % FORMS),
                 .refusal = (refusal)(seed / FORMS % REFUSALS),
                 .who = (int)(seed / FORMS / REFUSALS % MEMBERS) };
    testing_note("form %d, refusal %d by w%d", (int)p.form, (int)p.refusal, p.who);
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                open_in_steps, &p);
}

static void a_refused_opening_fails_on_all(void **state) {
    (void)state;
    testing_for_seeds(2 * FORMS * REFUSALS * MEMBERS, open_with_seed, NULL);
}

// ---- Lists that are refused ---------------------------------------------------------------------

static void expect_parent_fails(gw_scope *root, gw_group *all, int rank, const char *text) {
    gw_scope *s = gw_scope_open(root);
    gw_barrier(s, all);
    gw_error e = gw_scope_close(s);
    if (e.status != GW_INVALID || !strstr(e.text, text)) fail_msg("w%d: %s", rank, e.text);
    s = gw_scope_open(root);
    double sum = gw_item(s, gw_all_reduce(s, all, gw_full(s, GW_F32, 5), GW_SUM));
    e = gw_scope_close(s);
    if (e.status || sum != 5 * MEMBERS) fail_msg("w%d: %g, %s", rank, sum, e.text);
}

static void refuse_lists(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *all = gw_group_world(root, .timeout_ms = 60000);
    for (int i = 0; i < 3; i++) {
        gw_scope *s = gw_scope_open(root);
        int who = i + 1, ranks[] = { 0, 1, rank == who && i < 2 ? 2 + 7 * i : 2, 3 };
        ranks[1] = rank == who && i == 0 ? 2 : 1;
        if (i < 2)
            gw_group_of(s, all, ranks, MEMBERS);
        else
            gw_group_blocks(s, all, rank == who ? 3 : 2);
        assert_int_equal(gw_scope_close(s).status, rank == who ? GW_INVALID : GW_OK);
        expect_parent_fails(
            root, all, rank,
            (const char *[]){ "w2 is twice in the list of workers",
                              "rank 9 is out of range for group",
                              "has 4 members, which cannot be divided into blocks of 3" }[i]);
    }
}

// The other members cannot learn which group it was.
static void a_refused_list_fails_the_next_call_of_its_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, refuse_lists, NULL);
}

GW_TESTS(group_opened_sim, a_refused_opening_fails_on_all,
         a_refused_list_fails_the_next_call_of_its_group);
