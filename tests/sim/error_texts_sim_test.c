// Texts of errors and lines of the log contain nothing internal of the library: no position in its source, no hash, no
// number in position of a name. A wide set of errors is provoked, and each text is checked.
#include "base/log.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3 };

// ---- Internal texts -----------------------------------------------------------------------------

static const struct {
    const char *pattern, *what;
} internals[] = {
    { "#[0-9]", "a number that stands for a name" },
    { "[0-9]{12,}", "a number that is a hash" },
    { "(^|[^0-9a-zA-Z_.])(0x)?[0-9a-f]*([0-9][a-f]|[a-f][0-9])[0-9a-f]{2,}([^0-9a-zA-Z_.]|$)",
      "a hash" },
    { "marked ", "a mark" },
    { " of key [0-9]", "a key that is not written as the option" },
    { "generation", "a generation" },
};

enum { INTERNALS = sizeof internals / sizeof *internals };

static regex_t compiled[INTERNALS], position;
static int checked_count;

static void compile_patterns(void) {
    for (int i = 0; i < INTERNALS; i++)
        assert_int_equal(regcomp(&compiled[i], internals[i].pattern, REG_EXTENDED), 0);
    assert_int_equal(regcomp(&position, "[a-z_0-9]+\\.[ch]:[0-9]+", REG_EXTENDED), 0);
}

// A position in this test is one in the program.
static const char *find_library_position(const char *line) {
    regmatch_t m;
    for (const char *at = line; regexec(&position, at, 1, &m, 0) == 0; at += m.rm_eo)
        if (strncmp(at + m.rm_so, "error_texts_sim_test.c:", 23) != 0) return at + m.rm_so;
    return NULL;
}

static void check_text(const char *line) {
    checked_count++;
    if (find_library_position(line)) fail_msg("a position in the library: %s", line);
    for (int i = 0; i < INTERNALS; i++)
        if (regexec(&compiled[i], line, 0, NULL, 0) == 0)
            fail_msg("%s: %s", internals[i].what, line);
}

static void take(gw_scope *s) {
    if (gw_ok(s)) return;
    check_text(gw_scope_error(s)->text);
    gw_scope_clear(s);
}

// ---- Errors -------------------------------------------------------------------------------------

static gw_group *group_of(gw_scope *s) {
    return gw_group_world(s, .name = "all", .timeout_ms = 5000);
}

static gw_tensor *sized(gw_scope *s, int rank) {
    return gw_ones(s, GW_F32, rank == 1 ? 4 : 3);
}

static void refused(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = group_of(s);
    gw_recv_any(s, g, NULL, .tag = 3, .timeout_ms = 100);
    take(s);
    gw_recv(s, g, (rank + 1) % MEMBERS, .tag = 3, .timeout_ms = 100);
    take(s);
    gw_broadcast(s, g, gw_ones(s, GW_F32, 3), 9);
    take(s);
    gw_all_reduce(s, g, NULL, GW_SUM);
    take(s);
}

static void other_shapes(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = group_of(s);
    gw_all_reduce(s, g, sized(s, rank), GW_SUM);
    take(s);
    gw_all_reduce(s, g, sized(s, rank), GW_SUM, .key = 7);
    take(s);
}

static void other_roots(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = group_of(s);
    gw_broadcast(s, g, sized(s, 0), rank == 1);
    take(s);
    gw_barrier(s, g);
    take(s);
}

// The text of so many tensors names only some of them.
static void other_middles(gw_scope *s, int rank, void *context) {
    (void)context;
    enum { COUNT = 80 };
    gw_group *g = group_of(s);
    gw_tensor *xs[COUNT];
    for (int i = 0; i < COUNT; i++) xs[i] = gw_ones(s, GW_F32, 10);
    xs[COUNT / 2 + 1] = sized(s, rank);
    xs[COUNT / 2] = sized(s, rank != 1);
    gw_all_reduce_coalesced(s, g, xs, COUNT, GW_SUM);
    const char *expected = ": 80 tensors (";
    if (!strstr(gw_scope_error(s)->text, expected) ||
        !strstr(gw_scope_error(s)->text, ", of different sizes"))
        fail_msg("%s", gw_scope_error(s)->text);
    take(s);
}

static void other_sizes(gw_scope *s, int rank, void *context) {
    (void)context;
    int64_t sizes[MEMBERS] = { 1, 1, 1 };
    if (rank == 1) sizes[0] = 2, sizes[1] = 0;
    gw_reduce_scatter(s, group_of(s), gw_ones(s, GW_F32, 3), GW_SUM, .sizes = sizes);
    take(s);
}

// Collectives that the library calls for the program.
static void a_split(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = group_of(s);
    if (rank == 1)
        gw_barrier(s, g);
    else
        gw_group_split(s, g, 0, 0);
    if (!strstr(gw_scope_error(s)->text, "all_gather_value (gw_group_split)"))
        fail_msg("%s", gw_scope_error(s)->text);
    take(s);
}

static void an_average(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = group_of(s);
    if (rank == 1)
        gw_barrier(s, g);
    else
        gw_average_parameters(s, g, gw_parameters(s, gw_nn_linear(s, 3, 2)));
    if (!strstr(gw_scope_error(s)->text, "(gw_average_parameters)"))
        fail_msg("%s", gw_scope_error(s)->text);
    take(s);
}

static void a_backward(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 1000);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
    gw_tensor *sum = gw_sum(s, gw_all_reduce(s, g, x, GW_SUM));
    if (rank == 1)
        cluster_pause_ms(s, 3000);
    else
        gw_backward(s, sum);
    take(s);
}

static void other_options(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_ddp_open(s, gw_nn_linear(s, 3, 2), .bucket_bytes = rank == 1 ? 100 : 200);
    take(s);
}

static void passes(gw_scope *s, int rank, bool is_late) {
    gw_group *g = group_of(s);
    gw_module *m = gw_nn_linear(s, 3, 2);
    gw_ddp *d = gw_ddp_open(s, m, .group = g);
    if (rank == 1 && !is_late) gw_ddp_set_hook(s, d, gw_hook_f16, NULL);
    gw_tensor *y = gw_module_call(s, m, gw_ones(s, GW_F32, 1, 3));
    if (rank == 1 && is_late)
        gw_barrier(s, g, .key = 9);
    else
        gw_backward(s, gw_sum(s, y));
    take(s);
}

static void a_pass_left_out(gw_scope *s, int rank, void *context) {
    (void)context;
    passes(s, rank, true);
}

static void other_hooks(gw_scope *s, int rank, void *context) {
    (void)context;
    passes(s, rank, false);
}

static void other_optimizers(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_list *all = gw_parameters(s, gw_nn_linear(s, 3, 2));
    gw_optimizer_shard(s, rank == 1 ? gw_adam(s, all) : gw_sgd(s, all));
    take(s);
}

static void generations(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = group_of(s);
    for (int i = 0; i < 2; i++) {
        gw_group *before = g;
        g = gw_group_reform(s, g);
        gw_all_reduce(s, g, sized(s, rank), GW_SUM);
        take(s);
        gw_barrier(s, before);
        take(s);
        gw_group_agree(s, before, 1);
        take(s);
    }
}

static void one_name_again(gw_scope *s, int rank, void *context) {
    (void)context;
    for (int i = 0; i < 3; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_group *g = group_of(t);
        gw_all_reduce(t, g, sized(t, rank), GW_SUM);
        take(t);
        gw_barrier(t, g);
        gw_scope_close_up(t);
    }
}

static void calls(gw_scope *s, int rank, void *context) {
    (void)context;
    int to = (rank + 1) % MEMBERS;
    gw_rpc_sync(s, to, "no_such_function", 1);
    take(s);
    gw_rpc_sync(s, to, "gw.matmul", gw_ones(s, GW_F32, 2, 3), gw_ones(s, GW_F32, 2, 3));
    take(s);
    gw_rpc_sync(s, to, "gw.matmul", 3);
    take(s);
    gw_to_here(s, gw_remote(s, to, "gw.mul", 1));
    take(s);
    gw_rpc_worker(s, "w9");
    take(s);
    gw_rpc_worker(s, 9);
    take(s);
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, 100);
    gw_named(t, to, "nothing");
    take(t);
    gw_scope_close_up(t);
}

static void remote_optimizers(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *x = gw_remote(s, 1, "gw.mul", gw_ones(s, GW_F32, 3), 2.0);
    gw_list *all = gw_list_open(s);
    gw_list_add(s, all, x);
    gw_sgd(s, all);
    take(s);
}

static cluster_main *const provocations[] = {
    refused,     other_shapes,     other_roots,    other_middles,     other_sizes, a_split,
    an_average,  a_backward,       other_options,  a_pass_left_out,   other_hooks, calls,
    generations, other_optimizers, one_name_again, remote_optimizers,
};

static void they_contain_nothing_internal(void **state) {
    (void)state;
    enum { COUNT = sizeof provocations / sizeof *provocations, SEEDS = 3 };
    compile_patterns();
    log_hook = check_text;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int i = 0; i < COUNT; i++) {
            testing_note("provocation %d, seed %d", i, (int)seed);
            cluster_options options = { .world_size = MEMBERS, .fails = true };
            cluster_outcome o = cluster_run(seed, options, provocations[i], NULL);
            for (int w = 0; w < MEMBERS; w++) check_text(o.errors[w].text);
        }
    log_hook = NULL;
    assert_true(checked_count > 2 * COUNT * SEEDS);
}

GW_TESTS(error_texts_sim, they_contain_nothing_internal);
