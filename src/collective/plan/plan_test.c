// Plans are run with symbols for numbers: a value is a tree of additions over members, or the input of a member.
#include "collective/plan/plan_build.h"

#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64, STEPS_MAX = 64 * MEMBERS_MAX + 8, SHAPES_MAX = 1024 };

// ---- Symbols ------------------------------------------------------------------------------------
typedef enum stage {
    STAGE_NONE,         // not made yet
    STAGE_CONTRIBUTED,  // the input of member |shape|
    STAGE_PARTIAL,      // a sum that is not rounded
    STAGE_FINISHED,     // a rounded sum
} stage;

typedef struct symbol {
    stage stage;
    int shape;  // a member's rank, or a node of a tree over them
    uint64_t first, count;
    int item;
    uint64_t after;  // a bit for each member whose enter precedes it
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

// y[i] = x[i] + x[i + p] where member i + p exists, then pairs, and pairs of those.
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
    plan_request request;  // except the rank
    plan plans[MEMBERS_MAX];
    symbol values[MEMBERS_MAX][STEPS_MAX];
    // Of a step that receives, the step of its peer that sends the value; of one that sends, the previous one to the
    // same peer. -1: none.
    int16_t other[MEMBERS_MAX][STEPS_MAX];
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
                 plan_kind_name(r->choice.kind), r->member_count, r->root,
                 (unsigned long)r->elements);
}

static void open_plans(job *j) {
    plan_request r = j->request;
    for (r.rank = 0; r.rank < r.member_count; r.rank++) {
        gw_error error;
        assert_int_equal(plan_init(&j->plans[r.rank], &r, &error), GW_OK);
        assert_int_equal(j->plans[r.rank].kind, r.choice.kind);
        assert_true(j->plans[r.rank].step_count <= STEPS_MAX);
        memset(j->values[r.rank], 0, (size_t)j->plans[r.rank].step_count * sizeof(symbol));
    }
}

enum { NO_MEMBER = -1 };

// Values are sent in the order of the plans: the k-th that is sent is the k-th that is received.
static void match(job *j, int from, int to) {
    const plan *sends = &j->plans[from], *receives = &j->plans[to];
    int sent = NO_MEMBER, at = 0;
    for (int i = 0; i < receives->step_count; i++) {
        if (receives->steps[i].kind != STEP_RECEIVE || receives->steps[i].peer != from) continue;
        while (at < sends->step_count &&
               (sends->steps[at].kind != STEP_SEND || sends->steps[at].peer != to))
            at++;
        if (at == sends->step_count)
            fail_msg("member %d waits for member %d, which sends no more", to, from);
        j->other[to][i] = (int16_t)at;
        j->other[from][at++] = (int16_t)sent;
        sent = at - 1;
    }
    for (; at < sends->step_count; at++)
        if (sends->steps[at].kind == STEP_SEND && sends->steps[at].peer == to)
            fail_msg("member %d sends more to member %d than that receives", from, to);
}

static void match_all(job *j) {
    for (int a = 0; a < j->request.member_count; a++)
        for (int b = 0; b < j->request.member_count; b++) match(j, a, b);
}

static void close_plans(job *j) {
    for (int i = 0; i < j->request.member_count; i++) plan_fini(&j->plans[i]);
}

// The elements [first, first + count) of |from|, a step or INPUT_OWN.
static symbol take(const job *j, int member, int from, uint64_t first, uint64_t count, int item) {
    if (from == INPUT_OWN) {
        bool is_piece = j->request.operation == OPERATION_BROADCAST;
        assert_true(first + count <= (is_piece ? PLAN_PIECES : j->request.elements));
        return (symbol){ STAGE_CONTRIBUTED, member, first, count, item, (uint64_t)1 << member };
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
        // Rounded sums are final.
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

// Consecutive pieces of the sum.
static symbol join_pieces(const job *j, int member, const plan_step *s) {
    const int *inputs = j->plans[member].inputs + s->first_input;
    symbol all = { .stage = STAGE_NONE };
    for (int i = 0; i < s->input_count; i++) {
        if (inputs[i] == INPUT_OWN) fail_msg("member %d joins its own input", member);
        symbol v = j->values[member][inputs[i]];
        if (v.stage == STAGE_NONE) return v;
        assert_int_equal(v.stage, STAGE_FINISHED);
        if (i == 0) {
            all = v;
            continue;
        }
        assert_int_equal(v.shape, all.shape);
        assert_true(v.first == all.first + all.count);
        all.count += v.count;
        all.after |= v.after;
    }
    assert_true(all.first == s->first && all.count == s->count);
    return all;
}

static symbol receive(const job *j, int member, int step) {
    const plan_step *s = &j->plans[member].steps[step];
    symbol v = j->values[s->peer][j->other[member][step]];
    if (v.stage == STAGE_NONE) return v;
    assert_true(v.first == s->first && v.count == s->count);
    assert_int_equal(s->is_partial, v.stage == STAGE_PARTIAL);
    return v;
}

static symbol run_step(const job *j, int member, int step) {
    const plan *p = &j->plans[member];
    const plan_step *s = &p->steps[step];
    if (s->kind == STEP_ADD) return add(j, member, s);
    if (s->kind == STEP_JOIN) return join_pieces(j, member, s);
    assert_true(s->peer >= 0 && s->peer < j->request.member_count && s->peer != member);
    if (s->kind == STEP_RECEIVE) return receive(j, member, step);
    assert_int_equal(s->input_count, 1);
    int before = j->other[member][step];  // values to one member are sent in the order of the plan
    if (before != NO_MEMBER && j->values[member][before].stage == STAGE_NONE)
        return (symbol){ .stage = STAGE_NONE };
    symbol v = take(j, member, p->inputs[s->first_input], s->first, s->count, s->item);
    if (v.stage != STAGE_NONE) assert_int_equal(s->is_partial, v.stage == STAGE_PARTIAL);
    return v;
}

// Runs steps until none can run. Then all have run, or members wait for each other.
static void run_to_the_end(job *j) {
    for (bool continues = true; continues;) {
        continues = false;
        for (int m = 0; m < j->request.member_count; m++) {
            for (int i = 0; i < j->plans[m].step_count; i++) {
                if (j->values[m][i].stage != STAGE_NONE) continue;
                j->values[m][i] = run_step(j, m, i);
                continues = continues || j->values[m][i].stage != STAGE_NONE;
            }
        }
    }
    for (int m = 0; m < j->request.member_count; m++)
        for (int i = 0; i < j->plans[m].step_count; i++)
            if (j->values[m][i].stage == STAGE_NONE)
                fail_msg("member %d waits for ever in step %d", m, i);
}

// ---- The expected results -----------------------------------------------------------------------
static symbol output(const job *j, int member, int i) {
    const plan_output *o = &j->plans[member].outputs[i];
    return take(j, member, o->step, o->first, o->count, o->item);
}

// Each element of the member's sum, once and in order.
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

static void assert_contributed(const job *j, int member, int i, int by, int item) {
    symbol v = output(j, member, i);
    assert_int_equal(v.stage, STAGE_CONTRIBUTED);
    assert_int_equal(v.shape, by);
    assert_int_equal(v.item, item);
}

// The root's input: in one value, or all pieces in order.
static void assert_whole(const job *j, int member) {
    int count = j->plans[member].output_count;
    assert_true(count == 1 || count == PLAN_PIECES);
    for (int i = 0; i < count; i++) {
        assert_contributed(j, member, i, j->request.root, -1);
        symbol v = output(j, member, i);
        assert_true(v.first == (uint64_t)i && v.count == (count > 1));
    }
}

static void assert_from_all(const job *j, int member, int item) {
    assert_int_equal(j->plans[member].output_count, j->request.member_count);
    for (int i = 0; i < j->request.member_count; i++) assert_contributed(j, member, i, i, item);
}

static void assert_nothing(const job *j, int member) {
    assert_int_equal(j->plans[member].output_count, 0);
}

// When the plan of a member has run, all other members have entered.
static void assert_all_have_arrived(const job *j, int member) {
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
    case OPERATION_BROADCAST: assert_whole(j, m); break;
    case OPERATION_ALL_GATHER: assert_from_all(j, m, -1); break;
    case OPERATION_GATHER:
        if (m == r->root)
            assert_from_all(j, m, -1);
        else
            assert_nothing(j, m);
        break;
    case OPERATION_SCATTER:
        assert_int_equal(j->plans[m].output_count, 1);
        assert_contributed(j, m, 0, r->root, m);
        break;
    case OPERATION_ALL_TO_ALL: assert_from_all(j, m, m); break;
    default: assert_nothing(j, m); assert_all_have_arrived(j, m);
    }
}

static void check(const plan_request *r) {
    describe(r);
    the_job.request = *r;
    open_plans(&the_job);
    match_all(&the_job);
    run_to_the_end(&the_job);
    for (int m = 0; m < r->member_count; m++) assert_result(&the_job, m);
    close_plans(&the_job);
}

// ---- Tests --------------------------------------------------------------------------------------
// One element, none, fewer than members, odd counts, one that fills cache lines and more.
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

static void check_hosts(plan_request r) {
    int most = r.choice.kind == PLAN_HOSTS ? r.member_count : 1;
    for (r.host_size = 1; r.host_size <= most; r.host_size *= 2)
        if (r.member_count % r.host_size == 0) check_sizes(r);
}

static void check_centers(plan_request r) {
    r.choice.centers = r.choice.kind == PLAN_STAR;
    do check_hosts(r);
    while ((r.choice.centers *= 2) && r.choice.centers <= r.member_count);
}

static void check_all_plans(int n) {
    for (int o = 0; o < OPERATION_COUNT; o++) {
        for (int kind = PLAN_AUTO + 1; kind < PLAN_KIND_COUNT; kind++) {
            if (!plan_exists((operation)o, (plan_kind)kind)) continue;
            // Of many, some.
            int step = n > 8 ? n / 3 : 1;
            for (int root = 0; root < (has_root((operation)o) ? n : 1); root += step)
                check_centers((plan_request){ .operation = (operation)o,
                                              .choice = { .kind = (plan_kind)kind },
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

static void plans_of_64_members_are_right(void **state) {
    (void)state;
    forget_shapes();
    check_all_plans(MEMBERS_MAX);
}

static plan_request random_request(uint64_t *random) {
    plan_request r = { .operation = (operation)random_below(random, OPERATION_COUNT) };
    do r.choice.kind = (plan_kind)random_below(random, PLAN_KIND_COUNT);
    while (!plan_exists(r.operation, r.choice.kind));
    r.member_count = random_below(random, 5) == 0 ? MEMBERS_MAX : 1 + random_below(random, 40);
    r.choice.centers = r.choice.kind == PLAN_STAR;
    while (r.choice.centers && 2 * r.choice.centers <= r.member_count && random_below(random, 2))
        r.choice.centers *= 2;
    r.root = has_root(r.operation) ? random_below(random, r.member_count) : 0;
    if (is_reduction(r.operation)) r.elements = (uint64_t)random_below(random, 6000);
    r.element_bytes = (size_t)1 << random_below(random, 4);
    while (r.member_count % 2 == 0 && random_below(random, 2))
        r.host_size = r.host_size ? 2 * r.host_size : 2;
    if (r.host_size && r.member_count % r.host_size) r.host_size = 0;
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

static plan_kind kind_for(operation o, int member_count, uint64_t bytes, int host_size) {
    return plan_choose(o, member_count, bytes, (plan_place){ host_size, 0 }).kind;
}

static void every_operation_has_a_plan_by_the_table(void **state) {
    (void)state;
    for (int o = 0; o < OPERATION_COUNT; o++) {
        for (int n = 1; n <= 1000; n += 1 + n / 3) {
            for (uint64_t bytes = 0; bytes < (uint64_t)1 << 40; bytes = 3 * bytes + 1) {
                for (int processors = 0; processors < 300; processors = 3 * processors + 1) {
                    plan_place where = { n, processors };
                    plan_choice c = plan_choose((operation)o, n, bytes, where), same;
                    assert_true(c.kind != PLAN_AUTO && plan_exists((operation)o, c.kind));
                    assert_true(plan_unpack(plan_pack(c), n, &same));
                    assert_true(same.kind == c.kind && same.centers == c.centers);
                }
            }
        }
    }
}

// With more members than processors the number of messages grows as the count of members.
static void few_members_add_for_many_that_share_a_processor(void **state) {
    (void)state;
    static const struct {
        int members, processors, centers;  // 0: no star
        uint64_t bytes;
    } rows[] = {
        { 32, 2, 1, 4096 },     { 32, 2, 2, 1 << 20 },       { 32, 16, 16, 1 << 20 },
        { 33, 24, 4, 1 << 18 }, { 64, 2, 2, 25 << 20 },      { 100, 2, 0, 4096 },
        { 100, 2, 2, 1 << 20 }, { 8, 2, 0, 1 << 20 },        { 32, 32, 0, 1 << 20 },
        { 32, 0, 0, 1 << 20 },  { 32, 2, 1, (1 << 16) + 4 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plan_place where = { rows[i].members, rows[i].processors };
        plan_choice c = plan_choose(OPERATION_ALL_REDUCE, rows[i].members, rows[i].bytes, where);
        assert_int_equal(c.kind == PLAN_STAR, rows[i].centers > 0);
        assert_int_equal(c.centers, rows[i].centers);
        plan_request r = { .operation = OPERATION_ALL_REDUCE,
                           .choice = c,
                           .member_count = rows[i].members,
                           .elements = rows[i].bytes / 4,
                           .element_bytes = 4 };
        int sent = 0;
        for (r.rank = 0; c.kind == PLAN_STAR && r.rank < r.member_count; r.rank++) {
            plan p;
            assert_int_equal(plan_init(&p, &r, NULL), GW_OK);
            for (int k = 0; k < p.step_count; k++) sent += p.steps[k].kind == STEP_SEND;
            plan_fini(&p);
        }
        uint64_t chunks = 1 + rows[i].bytes / PLAN_CHUNK_BYTES;
        assert_true(sent <= (c.centers + (int)chunks) * 2 * (r.member_count - 1));
    }
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 32, 1 << 20, 0), PLAN_HALVING);
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 32, 2 << 20, 0), PLAN_DIRECT);
    plan_choice c;
    assert_false(plan_unpack(PLAN_DIRECT | 1 << 4, 32, &c));
    assert_false(plan_unpack(PLAN_STAR | 6 << 4, 33, &c));
    assert_false(plan_unpack(PLAN_KIND_COUNT, 33, &c));
    assert_false(plan_unpack(PLAN_AUTO, 33, &c));
}

// Counts what the members of host 0 other than member 0 send by receiver: elements of a sum, values of others.
static uint64_t count_across(plan_request r) {
    uint64_t sent = 0;
    for (r.rank = 0; r.rank < r.host_size; r.rank++) {
        plan p;
        assert_int_equal(plan_init(&p, &r, NULL), GW_OK);
        for (int i = 0; i < p.step_count; i++) {
            const plan_step *x = &p.steps[i];
            if (x->kind == STEP_SEND && x->peer >= r.host_size) sent += r.elements ? x->count : 1;
        }
        plan_fini(&p);
    }
    return sent;
}

// Between hosts, sums that are not small are made by host, and a value for all crosses once.
static void hosts_exchange_as_little_as_possible(void **state) {
    (void)state;
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 8, 1 << 20, 4), PLAN_HOSTS);
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 8, 4096, 4),
                     kind_for(OPERATION_ALL_REDUCE, 8, 4096, 0));
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 8, 1 << 20, 8), PLAN_DIRECT);
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 8, 1 << 20, 1), PLAN_DIRECT);
    assert_int_equal(kind_for(OPERATION_BROADCAST, 8, 0, 4), PLAN_HOSTS);
    assert_int_equal(kind_for(OPERATION_ALL_GATHER, 8, 0, 8), PLAN_FLAT);
    const uint64_t all = 1 << 20;
    uint64_t shares[16];
    for (int i = 0; i < 16; i++) shares[i] = all / 16;
    // Four hosts of four.
    plan_request r = {
        .choice = { .kind = PLAN_HOSTS }, .member_count = 16, .host_size = 4, .element_bytes = 4
    };
    r.operation = OPERATION_BROADCAST;
    assert_int_equal(count_across(r), 2);  // the other members continue with it
    r.operation = OPERATION_ALL_GATHER;
    assert_int_equal(count_across(r), 3 * 4);
    r.elements = all;
    r.operation = OPERATION_ALL_REDUCE;
    assert_int_equal(count_across(r), 2 * 3 * all / 4);  // its pieces, and sums of its own
    r.operation = OPERATION_REDUCE_SCATTER;
    r.shares = shares;
    assert_int_equal(count_across(r), 3 * all / 4);
    r.operation = OPERATION_REDUCE;
    r.root = 6;
    assert_int_equal(count_across(r), all);
}

static void the_environment_chooses(void **state) {
    (void)state;
    setenv("GW_COLLECTIVE",
           "all_reduce:direct,reduce:doubling,barrier,sum:flat,broadcast:fast,all_redcue:flat,"
           "broadcast:tere",
           1);
    FILE *written = tmpfile();
    int before = dup(2);
    dup2(fileno(written), 2);
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 2, 4, 0), PLAN_DIRECT);
    assert_int_equal(kind_for(OPERATION_REDUCE, 2, 4, 0), PLAN_FLAT);  // as in the table
    dup2(before, 2);
    char text[2048] = "";
    rewind(written);
    text[fread(text, 1, sizeof text - 1, written)] = '\0';
    fclose(written);
    static const char *const lines[] = {
        "\"reduce:doubling\" names a plan that this collective does not have and changes nothing",
        "\"barrier\" is not of the form \"operation:plan\" and changes nothing",
        "\"sum:flat\" names an unknown collective and changes nothing",
        ("\"broadcast:fast\" names an unknown plan and changes nothing; "
         "\"all_reduce:direct\" does\n"),
        "\"all_reduce:direct\" does; did you mean \"all_reduce\"?",
        "\"all_reduce:direct\" does; did you mean \"tree\"?",
    };
    for (int i = 0; i < 6; i++)
        if (!strstr(text, lines[i])) fail_msg("not in \"%s\": %s", text, lines[i]);
    plan_prefer(OPERATION_ALL_REDUCE, PLAN_AUTO);
    assert_int_equal(kind_for(OPERATION_ALL_REDUCE, 2, 4, 0), PLAN_FLAT);
}

static void large_values_are_not_sent_to_all(void **state) {
    (void)state;
    // A member of a direct all_reduce sends its input twice, except its own slices.
    plan_request r = { .operation = OPERATION_ALL_REDUCE,
                       .choice = { .kind = PLAN_DIRECT },
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
    static const struct {
        operation operation;
        plan_kind kind;
    } plans[] = {
        { OPERATION_ALL_REDUCE, PLAN_FLAT },     { OPERATION_ALL_REDUCE, PLAN_DIRECT },
        { OPERATION_ALL_REDUCE, PLAN_DOUBLING }, { OPERATION_ALL_REDUCE, PLAN_HALVING },
        { OPERATION_ALL_REDUCE, PLAN_HOSTS },    { OPERATION_ALL_GATHER, PLAN_HOSTS },
        { OPERATION_REDUCE, PLAN_HOSTS },        { OPERATION_GATHER, PLAN_TREE },
        { OPERATION_ALL_REDUCE, PLAN_STAR },
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        plan_request r = { .operation = plans[i].operation,
                           .choice = { plans[i].kind, plans[i].kind == PLAN_STAR ? 4 : 0 },
                           .member_count = 16,
                           .host_size = 4,
                           .rank = 2,
                           .root = 2,
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
         plans_of_64_members_are_right, random_plans_are_right,
         every_operation_has_a_plan_by_the_table, few_members_add_for_many_that_share_a_processor,
         the_environment_chooses, hosts_exchange_as_little_as_possible,
         large_values_are_not_sent_to_all, memory_may_fail);
