// Every operator gives the values that PyTorch recorded, and the gradients, through gw_backward.
#include "testing/recording.h"
#include "testing/testing.h"

#include "tensor/ops/op.h"
#include <gradwire/amp.h>
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <stdio.h>
#include <string.h>

// Of f32, whose sums PyTorch adds in another order than we do. Of bf16, which has 8 bits: later
// roundings may differ, too.
static double relative = 1e-5, absolute = 2e-6;
static const double relative_bf16 = 1.0 / 64, absolute_bf16 = 1.0 / 64;
static bool is_autocast;

// Random results cannot be compared; cases of these rows have no random part.
enum { INPUTS_MAX = 8 };

typedef struct recorded_case {
    const op *op;
    gw_value args[OP_ARGS_MAX];
    int arg_count;
    gw_tensor *inputs[INPUTS_MAX];  // flat
    int input_count;
    char label[128];
} recorded_case;

static void add_input(gw_scope *s, recorded_case *c, gw_tensor *x) {
    assert_true(c->input_count < INPUTS_MAX);
    if (gw_dtype_of(x) <= GW_BF16) gw_requires_grad(s, x);
    c->inputs[c->input_count++] = x;
}

static void read_args(gw_scope *s, recording *r, recorded_case *c) {
    while (recording_takes(r, "arg")) {
        gw_value v = c->args[c->arg_count++] = recording_value(s, r);
        if (v.kind == GW_TENSOR) add_input(s, c, v.as.tensor);
        for (int i = 0; v.kind == GW_LIST && i < gw_list_count(v.as.list); i++) {
            gw_value item = gw_list_get(s, v.as.list, i);
            if (item.kind == GW_TENSOR) add_input(s, c, item.as.tensor);
        }
    }
}

enum { RESULTS_MAX = 9 };

typedef struct recorded_results {
    gw_tensor *of[RESULTS_MAX];
    int count;
} recorded_results;

static recorded_results run_row(gw_scope *s, const recorded_case *c) {
    recorded_results y = { .count = 1 };
    gw_value v = op_run_value(s, c->op, c->args, c->arg_count);
    if (!gw_ok(s)) fail_msg("%s: %s", c->label, gw_scope_error(s)->text);
    if (v.kind == GW_LIST) y.count = gw_list_count(v.as.list);
    assert_true(y.count <= RESULTS_MAX);
    for (int i = 0; i < y.count; i++)
        y.of[i] = gw_tensor_of(s, v.kind == GW_LIST ? gw_list_get(s, v.as.list, i) : v);
    return y;
}

// The sum of the results times their recorded gradients, whose gradient is 1. Integers have none.
static gw_tensor *loss_of(gw_scope *s, recording *r, const recorded_results *y) {
    gw_tensor *loss = gw_zeros(s, GW_F64);
    for (int i = 0; i < y->count; i++) {
        if (!gw_needs_grad(y->of[i])) continue;
        if (i > 0) assert_true(recording_takes(r, "d_out"));
        loss = gw_add(s, loss, gw_sum(s, gw_mul(s, y->of[i], recording_tensor(s, r))));
    }
    return loss;
}

static void compare_gradients(gw_scope *s, recording *r, const recorded_case *c,
                              const recorded_results *y) {
    if (y->count == 1) {
        gw_tensor *d_out = recording_tensor(s, r);
        gw_backward(s, y->of[0], .gradient = d_out);
    } else {
        gw_backward(s, loss_of(s, r, y));
    }
    if (!gw_ok(s)) fail_msg("%s: %s", c->label, gw_scope_error(s)->text);
    while (recording_takes(r, "d_in")) {
        int i = (int)recording_number(r);
        char label[160];
        snprintf(label, sizeof label, "%s, gradient of input %d", c->label, i);
        gw_tensor *expected = recording_tensor(s, r), *d = gw_grad_find(s, c->inputs[i]);
        if (!d) fail_msg("%s: no gradient", label);
        recording_compare(label, d, expected, relative, absolute);
    }
}

// One case; returns its row.
static const op *run_case(recording *r, int number) {
    gw_scope *s = gw_scope_open(NULL);
    if (is_autocast) gw_autocast(s, GW_BF16);
    recorded_case c = { 0 };
    const char *name = recording_word(r);
    snprintf(c.label, sizeof c.label, "case %d, gw.%s", number, name);
    testing_note("%s", c.label);
    c.op = op_find(name);
    if (!c.op) fail_msg("%s: no such operator", c.label);
    read_args(s, r, &c);
    recorded_results y = run_row(s, &c);
    for (int i = 0; i < y.count; i++) {
        assert_true(recording_takes(r, "out"));
        recording_compare(c.label, y.of[i], recording_tensor(s, r), relative, absolute);
    }
    if (recording_takes(r, "d_out"))
        compare_gradients(s, r, &c, &y);
    else
        assert_false(gw_needs_grad(y.of[0]));
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    return c.op;
}

// Rows with random results.
static bool is_by_chance(const op *o) {
    return strcmp(o->name, "rand") == 0 || strcmp(o->name, "randn") == 0;
}

// PyTorch's CPU has no such operators: it computes parts of them in f32.
static bool is_recurrent(const op *o) {
    return o == op_find("lstm") || o == op_find("gru") || o == op_find("rnn");
}

static void run_cases(const char *path, bool *seen) {
    recording r = recording_open(path);
    for (int number = 1; recording_takes(&r, "case"); number++) {
        const op *o = run_case(&r, number);
        for (int i = 0; op_table[i]; i++) seen[i] |= op_table[i] == o;
    }
    assert_null(recording_word(&r));
    recording_close(&r);
}

enum { ROWS_MAX = 256 };

static void operators_give_the_results_of_pytorch(void **state) {
    (void)state;
    bool seen[ROWS_MAX] = { false };
    run_cases(RECORDINGS "operators.txt", seen);
    run_cases(RECORDINGS "picking.txt", seen);
    run_cases(RECORDINGS "numbers.txt", seen);
    for (int i = 0; op_table[i]; i++)
        if (!seen[i] && !is_by_chance(op_table[i]))
            fail_msg("tools/record has no case of gw.%s", op_table[i]->name);
}

static void autocast_gives_the_results_of_pytorch(void **state) {
    (void)state;
    bool seen[ROWS_MAX] = { false };
    is_autocast = true;
    relative = relative_bf16;
    absolute = absolute_bf16;
    run_cases(RECORDINGS "autocast.txt", seen);
    for (int i = 0; op_table[i]; i++)
        if (!seen[i] && op_table[i]->cast != OP_CAST_NONE && !is_recurrent(op_table[i]))
            fail_msg("tools/record has no case of gw.%s under autocast", op_table[i]->name);
}

static char *next_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (end) *end = '\0';
    *at = end ? end + 1 : line + strlen(line);
    return line;
}

static void tensors_print_as_in_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "texts.txt");
    while (recording_takes(&r, "case")) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = recording_tensor(s, &r);
        assert_true(recording_takes(&r, "text"));
        const char *text = gw_to_text(s, x);
        char *at = memcpy(gw_alloc(s, strlen(text) + 1), text, strlen(text) + 1);
        int count = (int)recording_number(&r);
        for (int i = 0; i < count; i++) assert_string_equal(next_line(&at), next_line(&r.at));
        assert_string_equal(at, "");
        assert_true(recording_takes(&r, "end"));
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
    assert_null(recording_word(&r));
    recording_close(&r);
}

GW_TESTS(autograd_recordings, operators_give_the_results_of_pytorch,
         autocast_gives_the_results_of_pytorch, tensors_print_as_in_pytorch);
