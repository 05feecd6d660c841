// Gradients that are sparse by rows: twenty steps as PyTorch recorded them, and refusals.
#include "testing/recording.h"
#include "testing/testing.h"

#include "optim/optimizer.h"
#include <gradwire/ops.h>

#include <string.h>

static gw_list *list_of(gw_scope *s, gw_tensor *x) {
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, x);
    return list;
}

static optimizer_group default_options(const rule *r) {
    optimizer_group g = { 0 };
    if (strcmp(r->name, "sgd") == 0)
        g.options.sgd = GW_OPTIONS(gw_sgd_options);
    else if (strcmp(r->name, "adagrad") == 0)
        g.options.adagrad = GW_OPTIONS(gw_adagrad_options);
    else
        g.options.sparse_adam = GW_OPTIONS(gw_sparse_adam_options);
    return g;
}

static gw_optimizer *open_rule(gw_scope *s, const rule *r, gw_list *params,
                               const optimizer_group *g) {
    if (strcmp(r->name, "sgd") == 0) return gw_sgd_with(s, params, g->options.sgd);
    if (strcmp(r->name, "adagrad") == 0) return gw_adagrad_with(s, params, g->options.adagrad);
    return gw_sparse_adam_with(s, params, g->options.sparse_adam);
}

static void run_case(recording *r, int number) {
    gw_scope *root = gw_scope_open(NULL);
    const rule *rule = rule_find(recording_word(r));
    assert_non_null(rule);
    testing_note("case %d, gw_%s", number, rule->name);
    optimizer_group g = default_options(rule);
    while (recording_takes(r, "option")) {
        const option *o = rule_option(rule, recording_word(r));
        assert_non_null(o);
        option_set(o, &g, recording_number(r));
    }
    assert_true(recording_takes(r, "param"));
    gw_tensor *table = gw_requires_grad(root, recording_tensor(root, r));
    gw_optimizer *opt = open_rule(root, rule, list_of(root, table), &g);
    while (recording_takes(r, "at")) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *at = recording_tensor(s, r);
        assert_true(recording_takes(r, "weight"));
        gw_tensor *weight = recording_tensor(s, r);
        gw_tensor *x = gw_embedding(s, table, at, .sparse = true);
        gw_backward(s, gw_sum(s, gw_mul(s, gw_mul(s, x, x), weight)));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
        if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
        if (!recording_takes(r, "param")) continue;
        gw_tensor *expected = recording_tensor(root, r);
        recording_compare(rule->name, table, expected,
                          gw_dtype_of(expected) == GW_F32 ? 2e-6 : 1e-12, 0);
    }
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_optimizer_steps(opt), 20);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void rows_step_as_in_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "sparse_optimizers.txt");
    int number = 0;
    while (recording_takes(&r, "case")) run_case(&r, ++number);
    assert_null(recording_word(&r));
    assert_true(number >= 12);
    recording_close(&r);
}

// ---- One step of a table of 4 rows of 1, of which rows 3 and 1 have a gradient ------------------
static gw_tensor *open_table(gw_scope *s) {
    return gw_requires_grad(s, gw_ones(s, GW_F32, 4, 1));
}

static void backward(gw_scope *s, gw_tensor *table) {
    gw_tensor *at = gw_from(s, ((int64_t[]){ 3, 1, 3 }), 3);
    gw_backward(s, gw_sum(s, gw_embedding(s, table, at, .sparse = true)));
}

static void assert_rows(const gw_tensor *table, float b, float d) {
    const float *x = gw_data(table);
    assert_float_equal(x[0], 1, 0);
    assert_float_equal(x[1], b, 1e-6);
    assert_float_equal(x[2], 1, 0);
    assert_float_equal(x[3], d, 1e-6);
}

static void rows_are_staged_and_committed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *table = open_table(s);
    gw_optimizer *opt = gw_sgd(s, list_of(s, table), .lr = 0.25);
    backward(s, table);
    const void *place = gw_data(table);
    assert_true(optimizer_prepare(s, opt));
    assert_rows(table, 1, 1);
    optimizer_abort(opt);
    assert_true(optimizer_prepare(s, opt));
    optimizer_commit(opt);
    assert_rows(table, 0.75f, 0.5f);
    assert_ptr_equal(gw_data(table), place);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void pinned_values_stay(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *table = open_table(s);
    gw_optimizer *opt = gw_adagrad(s, list_of(s, table), .lr = 0.25, .eps = 1e-30);
    backward(s, table);
    block *frame = block_pin(table->storage->block);
    gw_optimizer_step(s, opt);
    gw_tensor *sum = gw_tensor_of(s, gw_map_get(s, gw_optimizer_state_dict(s, opt), "0.sum"));
    assert_rows(table, 0.75f, 0.75f);
    assert_float_equal(((const float *)(const void *)frame->bytes)[1], 1, 0);
    block_unpin(frame);
    gw_optimizer_step(s, opt);
    assert_float_equal(((const float *)gw_data(sum))[3], 4, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void assert_refused(gw_scope *s, gw_optimizer *opt, const gw_tensor *table,
                           const char *words) {
    gw_optimizer_step(s, opt);
    assert_rows(table, 1, 1);
    assert_int_equal(gw_optimizer_steps(opt), 0);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

static void gradients_of_another_kind_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *table = open_table(s);
    backward(s, table);
    assert_refused(s, gw_adam(s, list_of(s, table)), table,
                   "step of gw_adam: the gradient of parameter 0 is sparse by rows");
    s = gw_scope_open(NULL);
    table = open_table(s);
    backward(s, table);
    assert_refused(s, gw_sgd(s, list_of(s, table), .weight_decay = 0.1), table,
                   "step of gw_sgd: weight_decay changes all rows");
    s = gw_scope_open(NULL);
    table = open_table(s);
    gw_backward(s, gw_sum(s, table));
    assert_refused(s, gw_sparse_adam(s, list_of(s, table)), table,
                   "step of gw_sparse_adam: the gradient of parameter 0 is dense");
}

static void train_rows(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *table = open_table(s);
    gw_optimizer *opt = gw_sparse_adam(s, list_of(s, table));
    for (int i = 0; i < 2; i++) {
        backward(s, table);
        gw_optimizer_step(s, opt);
    }
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(train_rows, NULL);
}

GW_TESTS(optim_row_update, rows_step_as_in_pytorch, rows_are_staged_and_committed,
         pinned_values_stay, gradients_of_another_kind_are_refused,
         it_survives_any_failing_allocation);
