// Plans are run with symbols for numbers: a value is a tree of additions over members, or what a
// member brought.
#include "collective/plan.h"

#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64, STEPS_MAX = 64 * MEMBERS_MAX + 8, SHAPES_MAX = 1024 };

// ---- Symbols ------------------------------------------------------------------------------------
typedef enum stage {
    STAGE_NONE,      // not made yet
    STAGE_BROUGHT,   // numbers as the member |shape| brings them
    STAGE_PARTIAL,   // a sum that is not rounded
    STAGE_FINISHED,  // one that is
} stage;

typedef struct symbol {
    stage stage;
    int shape;  // a member's rank, or a node of a tree over them
    uint64_t first, count;
    int item;
    uint64_t after;  // a bit for each member that has come before it was made
} symbol;

// Numbers of trees, by those of their halves: equal trees have equal numbers.
static uint16_t joined[SHAPES_MAX][SHAPES_MAX];
static int shape_count;

static void forget_shapes(void) {
    memset(joined, 0, sizeof joined);
    shape_count = MEMBERS_MAX;
}

static int join(int a, int b) {
    if (!joined[a][b]) {
        assert_true(shape_count < SHAPES_MAX);
        joined[a][b] = (uint16_t)shape_count++;
    }
    return joined[a][b];
}

// y[i] = x[i] + x[i + p] where there is one, then pairs, and pairs of those.
static int tree_over(const int *shapes, int count) {
    int y[MEMBERS_MAX], p = 1;
    while (2 * p <= count) p *= 2;
    for (int i = 0; i < p; i++) y[i] = i + p < count ? join(shapes[i], shapes[i + p]) : shapes[i];
    for (; p > 1; p /= 2)
        for (int i = 0; i < p / 2; i++) y[i] = join(y[2 * i], y[2 * i + 1]);
    return y[0];
}

static int random_below(uint64_t *random, int count) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int)((*random >> 33) % (uint64_t)count);
}

// ---- Running the plans of all members -----------------------------------------------------------
typedef struct job {
    plan_request request;  // but the rank
    plan plans[MEMBERS_MAX];
    symbol values[MEMBERS_MAX][STEPS_MAX];
} job;

static job the_job;

static bool is_reduction(operation o) {
    return o == OPERATION_ALL_REDUCE || o == OPERATION_REDUCE || o == OPERATION_REDUCE_SCATTER;
}

static uint64_t the_seed;  // 0: not a random one

static void describe(const plan_request *r) {
    char seed[32] = "";
    if (the_seed) snprintf(seed, sizeof seed, "seed %lu: ", (unsigned long)the_seed);
    testing_note("%s%s %s of %d members, root %d, %lu elements", seed, operation_name(r->operation),
                 plan_kind_name(r->kind), r->member_count, r->root, (unsigned long)r->elements);
}

static void open_plans(job *j) {
    plan_request r = j->request;
    for (r.rank = 0; r.rank < r.member_count; r.rank++) {
        gw_error error;
        assert_int_equal(plan_init(&j->plans[r.rank], &r, &error), GW_OK);
        assert_int_equal(j->plans[r.rank].kind, r.kind);
        assert_true(j->plans[r.rank].step_count <= STEPS_MAX);
        memset(j->values[r.rank], 0, (size_t)j->plans[r.rank].step_count * sizeof(symbol));
    }
}

static void close_plans(job *j) {
    for (int i = 0; i < j->request.member_count; i++) plan_fini(&j->plans[i]);
}

// What |from|, a step or INPUT_OWN, has of the elements [first, first + count).
static symbol take(const job *j, int member, int from, uint64_t first, uint64_t count, int item) {
    if (from == INPUT_OWN) {
        assert_true(first + count <= j->request.elements);
        return (symbol){ STAGE_BROUGHT, member, first, count, item, (uint64_t)1 << member };
    }
    symbol v = j->values[member][from];
    if (v.stage == STAGE_NONE) return v;
    assert_true(first >= v.first && first + count <= v.first + v.count);
    v.first = first;
    v.count = count;
    return v;
}

static symbol add(const job *j, int member, const plan_step *s) {
    const int *inputs = j->plans[member].inputs + s->first_input;
    int shapes[MEMBERS_MAX];
    stage of_inputs = STAGE_NONE;
    uint64_t after = 0;
    assert_true(s->input_count >= 1 && s->input_count <= MEMBERS_MAX);
    for (int i = 0; i < s->input_count; i++) {
        symbol v = take(j, member, inputs[i], s->first, s->count, -1);
        if (v.stage == STAGE_NONE) return v;
        // Sums that are rounded are at an end.
        assert_int_not_equal(v.stage, STAGE_FINISHED);
        if (i > 0) assert_int_equal(v.stage, of_inputs);
        of_inputs = v.stage;
        shapes[i] = v.shape;
        after |= v.after;
    }
    return (symbol){ s->is_partial ? STAGE_PARTIAL : STAGE_FINISHED,
                     tree_over(shapes, s->input_count),
                     s->first,
                     s->count,
                     -1,
                     after };
}

// The step that sends what step |receive| of |member| waits for: the one with as many before it.
static int sender_of(const job *j, int member, int receive) {
    const plan *here = &j->plans[member], *there = &j->plans[here->steps[receive].peer];
    int before = 0;
    for (int i = 0; i < receive; i++)
        before +=
            here->steps[i].kind == STEP_RECEIVE && here->steps[i].peer == here->steps[receive].peer;
    for (int i = 0; i < there->step_count; i++)
        if (there->steps[i].kind == STEP_SEND && there->steps[i].peer == member && before-- == 0)
            return i;
    fail_msg("member %d waits for member %d, which sends no more", member,
             here->steps[receive].peer);
    return -1;
}

static symbol receive(const job *j, int member, int step) {
    const plan_step *s = &j->plans[member].steps[step];
    int sent_by = sender_of(j, member, step);
    symbol v = j->values[s->peer][sent_by];
    if (v.stage == STAGE_NONE) return v;
    assert_true(v.first == s->first && v.count == s->count);
    assert_int_equal(s->is_partial, v.stage == STAGE_PARTIAL);
    return v;
}

static symbol run_step(const job *j, int member, int step) {
    const plan *p = &j->plans[member];
    const plan_step *s = &p->steps[step];
    if (s->kind == STEP_ADD) return add(j, member, s);
    assert_true(s->peer >= 0 && s->peer < j->request.member_count && s->peer != member);
    if (s->kind == STEP_RECEIVE) return receive(j, member, step);
    assert_int_equal(s->input_count, 1);
    for (int i = 0; i < step; i++)  // values to one member go in the order of the plan
        if (p->steps[i].kind == STEP_SEND && p->steps[i].peer == s->peer &&
            j->values[member][i].stage == STAGE_NONE)
            return (symbol){ .stage = STAGE_NONE };
    symbol v = take(j, member, p->inputs[s->first_input], s->first, s->count, s->item);
    if (v.stage != STAGE_NONE) assert_int_equal(s->is_partial, v.stage == STAGE_PARTIAL);
    return v;
}

// Runs what can run until nothing can. Everything has run then, or members wait for each other.
static void run_to_the_end(job *j) {
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int m = 0; m < j->request.member_count; m++) {
            for (int i = 0; i < j->plans[m].step_count; i++) {
                if (j->values[m][i].stage != STAGE_NONE) continue;
                j->values[m][i] = run_step(j, m, i);
                goes_on = goes_on || j->values[m][i].stage != STAGE_NONE;
            }
        }
    }
    for (int m = 0; m < j->request.member_count; m++)
        for (int i = 0; i < j->plans[m].step_count; i++)
            if (j->values[m][i].stage == STAGE_NONE)
                fail_msg("member %d waits for ever in step %d", m, i);
}

// Each member receives what is sent to it, nothing is left.
static void assert_all_is_received(const job *j) {
    static int sent[MEMBERS_MAX][MEMBERS_MAX];
    memset(sent, 0, sizeof sent);
    for (int m = 0; m < j->request.member_count; m++) {
        for (int i = 0; i < j->plans[m].step_count; i++) {
            const plan_step *s = &j->plans[m].steps[i];
            if (s->kind == STEP_SEND) sent[m][s->peer]++;
            if (s->kind == STEP_RECEIVE) sent[s->peer][m]--;
        }
    }
    for (int a = 0; a < j->request.member_count; a++)
        for (int b = 0; b < j->request.member_count; b++)
            if (sent[a][b]) fail_msg("%d more from %d to %d than received", sent[a][b], a, b);
}

// ---- What has to come out -----------------------------------------------------------------------
static symbol output(const job *j, int member, int i) {
    const plan_output *o = &j->plans[member].outputs[i];
    return take(j, member, o->step, o->first, o->count, o->item);
}

// Each element of the sum that the member is to have, once and in order.
static void assert_sum(const job *j, int member, uint64_t first, uint64_t count) {
    int members[MEMBERS_MAX];
    for (int i = 0; i < MEMBERS_MAX; i++) members[i] = i;
    int tree = tree_over(members, j->request.member_count);
    uint64_t at = first;
    for (int i = 0; i < j->plans[member].output_count; i++) {
        symbol v = output(j, member, i);
        assert_int_equal(v.stage, STAGE_FINISHED);
        if (v.shape != tree) fail_msg("member %d has another order of additions", member);
        assert_true(v.first == at);
        at += v.count;
    }
    assert_true(at == first + count);
}

static void assert_brought(const job *j, int member, int i, int by, int item) {
    symbol v = output(j, member, i);
    assert_int_equal(v.stage, STAGE_BROUGHT);
    assert_int_equal(v.shape, by);
    assert_int_equal(v.item, item);
}

static void assert_from_all(const job *j, int member, int item) {
    assert_int_equal(j->plans[member].output_count, j->request.member_count);
    for (int i = 0; i < j->request.member_count; i++) assert_brought(j, member, i, i, item);
}

static void assert_nothing(const job *j, int member) {
    assert_int_equal(j->plans[member].output_count, 0);
}

// When its plan has run, the member knows that each other has come.
static void assert_all_have_come(const job *j, int member) {
    uint64_t after = (uint64_t)1 << member;
    for (int i = 0; i < j->plans[member].step_count; i++) after |= j->values[member][i].after;
    assert_true(after == UINT64_MAX >> (MEMBERS_MAX - j->request.member_count));
}

static void assert_result(const job *j, int m) {
    const plan_request *r = &j->request;
    uint64_t first = 0;
    switch (r->operation) {
    case OPERATION_ALL_REDUCE: assert_sum(j, m, 0, r->elements); break;
    case OPERATION_REDUCE:
        if (m == r->root)
            assert_sum(j, m, 0, r->elements);
        else
            assert_nothing(j, m);
        break;
    case OPERATION_REDUCE_SCATTER:
        for (int i = 0; i < m; i++) first += r->shares[i];
        assert_sum(j, m, first, r->shares[m]);
        break;
    case OPERATION_BROADCAST:
        assert_int_equal(j->plans[m].output_count, 1);
        assert_brought(j, m, 0, r->root, -1);
        break;
    case OPERATION_ALL_GATHER: assert_from_all(j, m, -1); break;
    case OPERATION_GATHER:
        if (m == r->root)
            assert_from_all(j, m, -1);
        else
            assert_nothing(j, m);
        break;
    case OPERATION_SCATTER:
        assert_int_equal(j->plans[m].output_count, 1);
        assert_brought(j, m, 0, r->root, m);
        break;
    case OPERATION_ALL_TO_ALL: assert_from_all(j, m, m); break;
    default: assert_nothing(j, m); assert_all_have_come(j, m);
    }
}

static void check(const plan_request *r) {
    describe(r);
    the_job.request = *r;
    open_plans(&the_job);
    assert_all_is_received(&the_job);
    run_to_the_end(&the_job);
    for (int m = 0; m < r->member_count; m++) assert_result(&the_job, m);
    close_plans(&the_job);
}

// ---- Tests --------------------------------------------------------------------------------------
// One element, none, fewer than members, odd counts, one that fills lines of the cache and more.
static uint64_t elements_of(int which, int n) {
    const uint64_t counts[] = { 0,    1,    (uint64_t)n - 1,    17 * (uint64_t)n + 3,
                                1024, 4099, n < 6 ? 5000000 : 9 };
    return counts[which];
}
enum { SIZES = 7 };

static bool has_root(operation o) {
    return o == OPERATION_REDUCE || o == OPERATION_BROADCAST || o == OPERATION_GATHER ||
           o == OPERATION_SCATTER;
}

static void check_sizes(plan_request r) {
    static const size_t widths[] = { 1, 2, 4, 8 };
    uint64_t shares[MEMBERS_MAX];
    for (int i = 0; i < (is_reduction(r.operation) ? SIZES : 1); i++) {
        if (is_reduction(r.operation)) r.elements = elements_of(i, r.member_count);
        r.element_bytes = widths[(i + r.member_count) % 4];
        // Uneven ones, some of them empty.
        uint64_t left = r.elements;
        for (int m = 0; m < r.member_count; m++) {
            shares[m] = m + 1 == r.member_count ? left : m % 3 * left / 4;
            left -= shares[m];
        }
        r.shares = r.operation == OPERATION_REDUCE_SCATTER ? shares : NULL;
        check(&r);
    }
}

static void check_all_plans(int n) {
    for (int o = 0; o < OPERATION_COUNT; o++) {
        for (int kind = PLAN_AUTO + 1; kind < PLAN_KIND_COUNT; kind++) {
            if (!plan_exists((operation)o, (plan_kind)kind)) continue;
            for (int root = 0; root < (has_root((operation)o) ? n : 1); root++)
                check_sizes((plan_request){ .operation = (operation)o,
                                            .kind = (plan_kind)kind,
                                            .member_count = n,
                                            .root = root });
        }
    }
}

static void plans_of_up_to_8_members_are_right(void **state) {
    (void)state;
    forget_shapes();
    for (int n = 1; n <= 8; n++) check_all_plans(n);
}

static void plans_of_up_to_33_members_are_right(void **state) {
    (void)state;
    forget_shapes();
    int step = testing_scaled(8) == 8 ? 1 : 5;
    for (int n = 9; n <= 33; n += step) check_all_plans(n);
}

static plan_request random_request(uint64_t *random) {
    plan_request r = { .operation = (operation)random_below(random, OPERATION_COUNT) };
    do r.kind = (plan_kind)random_below(random, PLAN_KIND_COUNT);
    while (!plan_exists(r.operation, r.kind));
    r.member_count = random_below(random, 5) == 0 ? MEMBERS_MAX : 1 + random_below(random, 40);
    r.root = has_root(r.operation) ? random_below(random, r.member_count) : 0;
    if (is_reduction(r.operation)) r.elements = (uint64_t)random_below(random, 6000);
    r.element_bytes = (size_t)1 << random_below(random, 4);
    return r;
}

static void a_random_plan_is_right(uint64_t seed, void *context) {
    (void)context;
    the_seed = seed;
    forget_shapes();
    uint64_t random = seed, shares[MEMBERS_MAX] = { 0 };
    for (int round = 0; round < 20; round++) {
        plan_request r = random_request(&random);
        uint64_t left = r.elements;
        for (int m = 0; m < r.member_count; m++) {
            shares[m] =
                m + 1 == r.member_count ? left : left * (uint64_t)random_below(&random, 10) / 20;
            left -= shares[m];
        }
        r.shares = r.operation == OPERATION_REDUCE_SCATTER ? shares : NULL;
        check(&r);
    }
}

static void random_plans_are_right(void **state) {
    (void)state;
    testing_for_seeds(200, a_random_plan_is_right, NULL);
}

static void every_operation_has_a_plan_by_the_table(void **state) {
    (void)state;
    for (int o = 0; o < OPERATION_COUNT; o++) {
        for (int n = 1; n <= 1000; n += 1 + n / 3) {
            for (uint64_t bytes = 0; bytes < (uint64_t)1 << 40; bytes = 3 * bytes + 1) {
                plan_kind kind = plan_choose((operation)o, n, bytes);
                assert_true(kind != PLAN_AUTO && plan_exists((operation)o, kind));
            }
        }
        // Without bytes nothing but the count may decide.
        plan_request r = { .operation = (operation)o, .member_count = 5 };
        uint64_t shares[5] = { 0 };
        r.shares = shares;
        plan p;
        assert_int_equal(plan_init(&p, &r, NULL), GW_OK);
        assert_int_equal(p.kind, plan_choose((operation)o, 5, 0));
        plan_fini(&p);
    }
}

static void the_environment_chooses(void **state) {
    (void)state;
    setenv("GW_COLLECTIVE", "all_reduce:direct,reduce:doubling,barrier,sum:flat,broadcast:fast", 1);
    FILE *said = tmpfile();
    int before = dup(2);
    dup2(fileno(said), 2);
    assert_int_equal(plan_choose(OPERATION_ALL_REDUCE, 2, 4), PLAN_DIRECT);
    assert_int_equal(plan_choose(OPERATION_REDUCE, 2, 4), PLAN_FLAT);  // as the table has it
    dup2(before, 2);
    char text[2048] = "";
    rewind(said);
    text[fread(text, 1, sizeof text - 1, said)] = '\0';
    fclose(said);
    static const char *const sentences[] = {
        "\"reduce:doubling\" names a plan that the collective has not and changes nothing",
        "\"barrier\" is no \"operation:plan\" and changes nothing",
        "\"sum:flat\" names no collective and changes nothing",
        "\"broadcast:fast\" names no plan and changes nothing; \"all_reduce:direct\" does",
    };
    for (int i = 0; i < 4; i++)
        if (!strstr(text, sentences[i])) fail_msg("not in \"%s\": %s", text, sentences[i]);
    plan_prefer(OPERATION_ALL_REDUCE, PLAN_AUTO);
    assert_int_equal(plan_choose(OPERATION_ALL_REDUCE, 2, 4), PLAN_FLAT);
}

static void large_values_do_not_go_to_all(void **state) {
    (void)state;
    // A member of a direct all_reduce sends twice what it brings, less its own slices.
    plan_request r = { .operation = OPERATION_ALL_REDUCE,
                       .kind = PLAN_DIRECT,
                       .member_count = 8,
                       .elements = 1 << 20,
                       .element_bytes = 4 };
    for (r.rank = 0; r.rank < 8; r.rank++) {
        plan p;
        assert_int_equal(plan_init(&p, &r, NULL), GW_OK);
        uint64_t sent = 0;
        for (int i = 0; i < p.step_count; i++)
            if (p.steps[i].kind == STEP_SEND) sent += p.steps[i].count;
        assert_true(sent == 2 * 7 * r.elements / 8);
        plan_fini(&p);
    }
}

static void without_memory_there_is_no_plan(void *context) {
    (void)context;
    static const plan_kind kinds[] = { PLAN_FLAT, PLAN_DIRECT, PLAN_DOUBLING };
    for (int i = 0; i < 3; i++) {
        plan_request r = { .operation = OPERATION_ALL_REDUCE,
                           .kind = kinds[i],
                           .member_count = 11,
                           .rank = 2,
                           .elements = 1000,
                           .element_bytes = 4 };
        plan p;
        gw_error error;
        gw_status status = plan_init(&p, &r, &error);
        plan_fini(&p);
        assert_true(status == GW_OK || status == GW_NO_MEMORY);
        if (status != GW_OK) return;
    }
}

static void memory_may_fail(void **state) {
    (void)state;
    testing_alloc_failure_loop(without_memory_there_is_no_plan, NULL);
}

GW_TESTS(collective_plan, plans_of_up_to_8_members_are_right, plans_of_up_to_33_members_are_right,
         random_plans_are_right, every_operation_has_a_plan_by_the_table, the_environment_chooses,
         large_values_do_not_go_to_all, memory_may_fail);
