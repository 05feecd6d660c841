// Hooks around hooks, and hooks that differ. Tests of single hooks are in ddp_test.c and next to each hook.
#include "testing/cluster.h"
#include "testing/given_gradients.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { MEMBERS = 2, COUNT = 200 };

static const int64_t size = COUNT;
static const gw_shape shape = { 1, &size };

static void run(cluster_main *main, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3); seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, main, context);
}

static gw_tensor *step_with(gw_scope *s, int rank, gw_comm_hook *hook, void *context) {
    given_model m;
    given_open(s, &m, 1, &shape);
    gw_ddp_set_hook(s, gw_ddp_open(s, m.module), hook, context);
    gw_tensor *own = given_numbers(s, shape, (uint64_t)rank);
    gw_backward(s, given_loss(s, &m, &own));
    return gw_ok(s) ? gw_grad(s, m.weights[0]) : NULL;
}

typedef struct around_job {
    gw_comm_hook *around, *same;
} around_job;

static void compare(gw_scope *root, int rank, void *context) {
    const around_job *j = context;
    gw_hook_around around = { gw_hook_all_reduce, NULL };
    gw_tensor *a = step_with(root, rank, j->around, &around);
    gw_tensor *b = step_with(root, rank, j->same, NULL);
    assert_true(gw_ok(root) && gw_equal(root, a, b));
}

static void the_mean_in_halves_is_that_of_the_hook_of_halves(void **state) {
    (void)state;
    run(compare, &(around_job){ gw_hook_f16_around, gw_hook_f16 });
    run(compare, &(around_job){ gw_hook_bf16_around, gw_hook_bf16 });
}

// A program's hook gets halves, and the result is half the sum.
static gw_future *half_of_the_sum(gw_scope *s, gw_bucket *b, void *context) {
    assert_true(gw_dtype_of(gw_bucket_tensor(s, b)) == GW_F16);
    assert_true(gw_dtype_of(gw_bucket_gradient(s, b, 0)) == GW_F16);
    ++*(int *)context;
    return gw_all_reduce_async(s, gw_bucket_group(b), gw_bucket_gradient(s, b, 0), GW_SUM,
                               .factor = 0.5);
}

static void go_around_own(gw_scope *root, int rank, void *context) {
    (void)context;
    int calls = 0;
    gw_hook_around around = { half_of_the_sum, &calls };
    gw_tensor *got = step_with(root, rank, gw_hook_f16_around, &around);
    gw_tensor *mean = gw_all_reduce(root, gw_group_world(root),
                                    given_numbers(root, shape, (uint64_t)rank), GW_AVG);
    given_compare(root, "half of the sum", got, mean, 1e-3);
    assert_true(calls == 1 && gw_dtype_of(got) == GW_F32);
}

static void a_programs_hook_sees_halves(void **state) {
    (void)state;
    run(go_around_own, NULL);
}

static void go_around_none(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_hook_around around = { 0 };
    assert_null(step_with(root, rank, gw_hook_f16_around, &around));
    if (!strstr(gw_scope_error(root)->text, "the hook inside the compressing hook is NULL"))
        fail_msg("%s", gw_scope_error(root)->text);
    gw_scope_clear(root);
}

static void a_hook_around_none_is_refused(void **state) {
    (void)state;
    run(go_around_none, NULL);
}

// ---- Members that differ ------------------------------------------------------------------------

typedef struct other_job {
    gw_comm_hook *hooks[MEMBERS];  // NULL: none
    void *contexts[MEMBERS];
    gw_power_sgd_options low[MEMBERS];
    const char *texts[MEMBERS];
} other_job;

static gw_future *own_mean(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    return gw_all_reduce_async(s, gw_bucket_group(b), gw_bucket_tensor(s, b), GW_AVG);
}

static bool is_low(gw_comm_hook *hook) {
    return hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd;
}

static void expect_both(gw_scope *s, const other_job *j, const char *between) {
    const char *text = gw_scope_error(s)->text;
    bool has_names = strstr(text, "w0") && strstr(text, "w1");
    const char *first = strstr(text, j->texts[0]);
    const char *second = first ? strstr(first + strlen(j->texts[0]), j->texts[1]) : NULL;
    if (gw_scope_error(s)->status != GW_MISMATCH || !has_names || !second || !strstr(text, between))
        fail_msg("%s, not %s and %s", text, j->texts[0], j->texts[1]);
    gw_scope_clear(s);
}

static void step_with_outer_hooks(gw_scope *root, int rank, void *context) {
    const other_job *j = context;
    given_model m;
    given_open(root, &m, 1, &shape);
    gw_ddp *d = gw_ddp_open(root, m.module);
    void *own = j->contexts[rank];
    if (is_low(j->hooks[rank])) own = gw_power_sgd_open_with(root, j->low[rank]);
    if (j->hooks[rank]) gw_ddp_set_hook(root, d, j->hooks[rank], own);
    gw_tensor *numbers = given_numbers(root, shape, (uint64_t)rank);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, given_loss(s, &m, &numbers));
    if (!strstr(gw_scope_error(s)->text, "(comm_hook_test.c:"))
        fail_msg("%s", gw_scope_error(s)->text);
    expect_both(s, j, "of DDP pass 1: ");
    gw_scope_close_up(s);
    // The replicas continue in a group of their own: members compare what they have before that is made.
    gw_ddp_reform(root, d, NULL, gw_group_world(root));
    expect_both(root, j, " on w1");
}

static void hooks_that_differ_are_named_with_their_options(void **state) {
    (void)state;
    gw_quantize_options narrow = { .channel = 16 };
    gw_local_sgd late = { .start = 9 }, alone = { .start = 3 };
    gw_hook_around one = { gw_hook_all_reduce, NULL }, two = { gw_hook_quantize_tensor, NULL };
    gw_power_sgd_options low = GW_OPTIONS(gw_power_sgd_options), other = low;
    other.seed = 5;
    const other_job jobs[] = {
        { { NULL, gw_hook_all_reduce }, .texts = { "no hook", "gw_hook_all_reduce" } },
        { { gw_hook_none, NULL }, .texts = { "gw_hook_none", "no hook" } },
        { { gw_hook_f16, gw_hook_bf16 }, .texts = { "gw_hook_f16", "gw_hook_bf16" } },
        { { gw_hook_all_reduce, own_mean },
          .texts = { "gw_hook_all_reduce", "a hook of its own" } },
        { { gw_hook_quantize_channel, gw_hook_quantize_channel },
          .contexts = { NULL, &narrow },
          .texts = { ".channel = 512", ".channel = 16" } },
        { { gw_hook_local_sgd, gw_hook_local_sgd },
          .contexts = { &late, &alone },
          .texts = { ".start = 9", ".start = 3" } },
        { { gw_hook_f16_around, gw_hook_f16_around },
          .contexts = { &one, &two },
          .texts = { "gw_hook_f16_around gw_hook_all_reduce",
                     "gw_hook_f16_around gw_hook_quantize_tensor" } },
        { { gw_hook_power_sgd, gw_hook_power_sgd },
          .low = { low, other },
          .texts = { ".seed = 0", ".seed = 5" } },
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        other_job j = jobs[i];
        run(step_with_outer_hooks, &j);
    }
}

GW_TESTS(parallel_comm_hook, hooks_that_differ_are_named_with_their_options,
         the_mean_in_halves_is_that_of_the_hook_of_halves, a_programs_hook_sees_halves,
         a_hook_around_none_is_refused);
