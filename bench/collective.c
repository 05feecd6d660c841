// Collectives between processes of one host: each sample is the time from a barrier until the slowest member is done.
#include "bench.h"

#include "collective/plan/plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES_MAX = 1000, AGREEMENTS = 500, WARM = 3 };

// One tensor |x| for the operation, or |items|, which have one tensor for each member; |x| has the same size in all
// calls.
static void run(gw_scope *s, gw_group *g, operation o, gw_tensor *x, gw_list *items) {
    switch (o) {
    case OPERATION_ALL_REDUCE: gw_all_reduce(s, g, x, GW_SUM); break;
    case OPERATION_REDUCE: gw_reduce(s, g, x, GW_SUM, 0); break;
    case OPERATION_BROADCAST: gw_broadcast(s, g, gw_group_rank(g) == 0 ? x : NULL, 0); break;
    case OPERATION_ALL_GATHER: gw_all_gather(s, g, x); break;
    case OPERATION_GATHER: gw_gather_to(s, g, x, 0); break;
    case OPERATION_SCATTER: gw_scatter_from(s, g, gw_group_rank(g) == 0 ? items : NULL, 0); break;
    case OPERATION_REDUCE_SCATTER: gw_reduce_scatter(s, g, x, GW_SUM); break;
    case OPERATION_ALL_TO_ALL: gw_all_to_all(s, g, x); break;
    default: gw_barrier(s, g);
    }
}

static void time_collective(gw_scope *root, samples *out, operation o, int64_t numbers, int count) {
    gw_group *g = gw_group_world(root);
    gw_tensor *x = gw_zeros(root, GW_F32, numbers);
    gw_list *items = gw_list_open(root);
    for (int i = 0; i < gw_group_size(g); i++) gw_list_add(root, items, x);
    double times[SAMPLES_MAX];
    for (int i = -WARM; i < count && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_barrier(s, g);
        double start = now_us();
        run(s, g, o, x, items);
        gw_scope_close_up(s);
        if (i >= 0) times[i] = now_us() - start;
    }
    samples_add_slowest(root, out, g, times, count);
}

static void agree(gw_scope *root, samples *out) {
    gw_group *g = gw_group_world(root);
    double times[AGREEMENTS];
    for (int i = -WARM; i < AGREEMENTS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_barrier(s, g);
        double start = now_us();
        gw_group_agree(s, g, 1);
        gw_scope_close_up(s);
        if (i >= 0) times[i] = now_us() - start;
    }
    samples_add_slowest(root, out, g, times, AGREEMENTS);
}

// Each generation continues the one before; the first barrier of a generation is part of its time.
static void reform(gw_scope *root, samples *out) {
    gw_group *g = gw_group_world(root);
    double times[AGREEMENTS];
    for (int i = -WARM; i < AGREEMENTS && gw_ok(root); i++) {
        gw_barrier(root, g);
        double start = now_us();
        g = gw_group_reform(root, g);
        gw_barrier(root, g);
        if (i >= 0) times[i] = now_us() - start;
    }
    samples_add_slowest(root, out, g, times, AGREEMENTS);
}

// Round trip.
static void send_8B(gw_scope *root, samples *out) {
    gw_group *g = gw_group_world(root);
    gw_tensor *x = gw_zeros(root, GW_F32, 2);
    int other = 1 - gw_group_rank(g);
    for (int i = -WARM; i < 2000 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        double start = now_us();
        if (other == 1) {
            gw_send(s, g, x, other);
            gw_recv(s, g, other);
        } else {
            gw_send(s, g, gw_recv(s, g, other), other);
        }
        gw_scope_close_up(s);
        if (i >= 0 && other == 1) samples_add(out, now_us() - start);
    }
}

// ---- The cases ----------------------------------------------------------------------------------
#define CASE(name, operation, numbers, count)                                                      \
    static void name(gw_scope *root, samples *out) {                                               \
        time_collective(root, out, operation, numbers, count);                                     \
    }
#define CASES(name, operation)                                                                     \
    CASE(name##_4KB, operation, 1 << 10, 1000)                                                     \
    CASE(name##_64KB, operation, 1 << 14, 400)                                                     \
    CASE(name##_1MB, operation, 1 << 18, 60)                                                       \
    CASE(name##_25MB, operation, 25 << 18, 10)                                                     \
    CASE(name##_100MB, operation, 25 << 20, 5)
CASES(all_reduce, OPERATION_ALL_REDUCE)
CASES(broadcast, OPERATION_BROADCAST)
CASES(reduce, OPERATION_REDUCE)
CASES(all_gather, OPERATION_ALL_GATHER)
CASES(gather, OPERATION_GATHER)
CASES(scatter, OPERATION_SCATTER)
CASES(reduce_scatter, OPERATION_REDUCE_SCATTER)
CASES(all_to_all, OPERATION_ALL_TO_ALL)
CASE(barrier, OPERATION_BARRIER, 1, 1000)

// With more members than processors.
CASE(crowd_barrier, OPERATION_BARRIER, 1, 50)
CASE(crowd_4KB, OPERATION_ALL_REDUCE, 1 << 10, 50)
CASE(crowd_1MB, OPERATION_ALL_REDUCE, 1 << 18, 20)
CASE(crowd_25MB, OPERATION_ALL_REDUCE, 25 << 18, 5)

#define CROWD(n)                                                                                   \
    { "scale.barrier_n" #n, -n, crowd_barrier }, { "scale.all_reduce_4KB_n" #n, -n, crowd_4KB },   \
        { "scale.all_reduce_1MB_n" #n, -n, crowd_1MB },                                            \
        { "scale.all_reduce_25MB_n" #n, -n, crowd_25MB },
#define ROWS(name, size)                                                                           \
    { "collective." #name "_" #size "_n2", -2, name##_##size },                                    \
        { "collective." #name "_" #size "_n4", -4, name##_##size },
#define ALL_ROWS(name)                                                                             \
    ROWS(name, 4KB) ROWS(name, 64KB) ROWS(name, 1MB) ROWS(name, 25MB) ROWS(name, 100MB)

const bench_case collective_cases[] = {
    { "collective.barrier_n2", -2, barrier },
    { "collective.barrier_n4", -4, barrier },
    { "collective.send_8B_n2", -2, send_8B },
    { "collective.agree_n4", -4, agree },
    { "collective.reform_n4", -4, reform },
    // clang-format off
    ALL_ROWS(all_reduce) ALL_ROWS(broadcast)
    ALL_ROWS(reduce) ALL_ROWS(all_gather) ALL_ROWS(gather) ALL_ROWS(scatter)
    ALL_ROWS(reduce_scatter) ALL_ROWS(all_to_all)
    CROWD(16) CROWD(32) CROWD(64)
    // clang-format on
    { NULL, 0, NULL },
};

// ---- The table of choices -----------------------------------------------------------------------
typedef struct candidate {
    operation operation;
    int64_t bytes;
} candidate;

static candidate the_candidate;  // of the job under way
static plan_kind the_kind;

static void time_candidate(gw_scope *root, samples *out) {
    plan_prefer(the_candidate.operation, the_kind);
    int64_t numbers = the_candidate.bytes / 4, count = ((int64_t)32 << 20) / the_candidate.bytes;
    time_collective(root, out, the_candidate.operation, numbers,
                    count < 10    ? 10
                    : count > 400 ? 400
                                  : (int)count);
}

// Prints one line: the time of each plan, with a star at the plan that the table chooses.
static int print_plans_of(candidate c, int members, const char *size) {
    bool has_bytes = c.operation == OPERATION_ALL_REDUCE || c.operation == OPERATION_REDUCE ||
                     c.operation == OPERATION_REDUCE_SCATTER;
    plan_place where = { .host_size = members, .processors = (int)sysconf(_SC_NPROCESSORS_CONF) };
    plan_kind chosen =
        plan_choose(c.operation, members, has_bytes ? (uint64_t)c.bytes : 0, where).kind;
    const bench_case job = { "", -members, time_candidate };
    int failed = 0;
    printf("%-10s %2d members %8s:", operation_name(c.operation), members, size);
    for (int kind = PLAN_AUTO + 1; kind < PLAN_KIND_COUNT; kind++) {
        if (!plan_exists(c.operation, (plan_kind)kind)) continue;
        if (kind == PLAN_HOSTS) continue;  // all are on one; bench/links compares these
        the_candidate = c;
        the_kind = (plan_kind)kind;
        printf("  %s%s", plan_kind_name((plan_kind)kind), kind == (int)chosen ? "*" : "");
        failed |= bench_run(&job);
    }
    puts("");
    return failed;
}

static bool is_selected(operation o, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], operation_name(o)) == 0) return true;
    return count == 0;
}

int bench_print_plans(char **names, int count) {
    static const operation operations[] = { OPERATION_ALL_REDUCE,     OPERATION_REDUCE,
                                            OPERATION_BROADCAST,      OPERATION_ALL_GATHER,
                                            OPERATION_GATHER,         OPERATION_SCATTER,
                                            OPERATION_REDUCE_SCATTER, OPERATION_ALL_TO_ALL,
                                            OPERATION_BARRIER };
    static const int counts[] = { 2, 3, 4, 8 };
    static const struct {
        const char *name;
        int64_t bytes;
    } sizes[] = { { "256 B", 256 },       { "4 KiB", 4 << 10 }, { "16 KiB", 16 << 10 },
                  { "64 KiB", 64 << 10 }, { "1 MiB", 1 << 20 }, { "16 MiB", 16 << 20 } };
    int failed = 0;
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        if (!is_selected(operations[o], names, count)) continue;
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                bool is_barrier = operations[o] == OPERATION_BARRIER;
                candidate c = { operations[o], sizes[i].bytes };
                failed |= print_plans_of(c, counts[n], is_barrier ? "" : sizes[i].name);
                if (is_barrier) break;
            }
        }
    }
    return failed;
}
