// A refused call fails with the rule: "Errors are INVALID with the operator, the operands and the rule" (ops.h). Each
// row of the table gets arguments of all kinds that it declares, most of them wrong; each error must name the rule.
#include "tensor/ops/op.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 400 };

typedef struct draw {
    uint64_t state;
} draw;

static int pick(draw *d, int count) {
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((d->state >> 33) % (uint64_t)count);
}

static gw_tensor *pick_tensor(gw_scope *s, draw *d) {
    gw_dtype dtype = (gw_dtype[]){ GW_F32, GW_F32, GW_I64, GW_BOOL8 }[pick(d, 4)];
    switch (pick(d, 7)) {
    case 0: return gw_ones(s, dtype);
    case 1: return gw_ones(s, dtype, 3);
    case 2: return gw_ones(s, dtype, 2, 3);
    case 3: return gw_ones(s, dtype, 5, 4);
    case 4: return gw_ones(s, dtype, 4, 5, 7);
    case 5: return gw_ones(s, dtype, 0, 3);
    default: return gw_ones(s, dtype, 2, 3, 8, 9);
    }
}

static gw_value pick_ints(gw_scope *s, draw *d) {
    gw_list *list = gw_list_open(s);
    for (int i = pick(d, 4); i > 0; i--)
        gw_list_add(s, list, ((int[]){ -9, -1, 0, 1, 3, 7 })[pick(d, 6)]);
    return gw_value_of(list);
}

static gw_value pick_tensors(gw_scope *s, draw *d) {
    gw_list *list = gw_list_open(s);
    for (int i = pick(d, 4); i > 0; i--) gw_list_add(s, list, pick_tensor(s, d));
    return gw_value_of(list);
}

static bool is_kind(const op_param *p, const char *kind) {
    return strlen(kind) == (size_t)p->kind_size && !strncmp(p->kind, kind, strlen(kind));
}

static gw_value pick_argument(gw_scope *s, draw *d, const op_param *p) {
    if (p->optional && !pick(d, 3)) return gw_none();
    if (is_kind(p, "tensor") || (is_kind(p, "operand") && pick(d, 4)))
        return gw_value_of(pick_tensor(s, d));
    if (is_kind(p, "tensors")) return pick_tensors(s, d);
    if (is_kind(p, "ints")) return pick_ints(s, d);
    if (is_kind(p, "bool")) return gw_value_of_bool(pick(d, 2));
    if (is_kind(p, "dtype")) return gw_value_of_int(pick(d, 2) ? GW_F32 : GW_I64);
    if (is_kind(p, "int")) return gw_value_of_int((int[]){ -9, -1, 0, 1, 3, 99 }[pick(d, 6)]);
    return gw_value_of_float((double[]){ -9, -1, 0, 0.5, 3, 99 }[pick(d, 6)]);
}

static bool names_the_rule(const char *text) {
    static const char *const words[] = { " must", "out of range for", "gw_" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i])) return true;
    return false;
}

static void each_error_names_the_violated_rule(void **state) {
    (void)state;
    int refused = 0, without = 0;
    draw d = { 1 };
    for (const op *const *o = op_table; *o; o++) {
        char last[GW_ERROR_TEXT_MAX] = "";
        for (int i = 0; i < testing_scaled(DRAWS); i++) {
            gw_scope *s = gw_scope_open(NULL);
            gw_value args[OP_ARGS_MAX];
            op_param p;
            int count = 0;
            for (const char *at = (*o)->params; op_param_next(&at, &p);)
                args[count++] = pick_argument(s, &d, &p);
            assert_true(gw_ok(s));
            op_run_value(s, *o, args, count);
            gw_error error = gw_scope_close(s);
            if (error.status != GW_INVALID) continue;
            refused++;
            if (names_the_rule(error.text)) continue;
            if (strcmp(last, error.text)) printf("no rule: %s\n", error.text);
            memcpy(last, error.text, sizeof last);
            without++;
        }
    }
    testing_note("%d of %d refusals do not name the rule", without, refused);
    assert_true(refused > testing_scaled(DRAWS) * 20);
    assert_int_equal(without, 0);
}

GW_TESTS_WITH_LIMIT(tensor_op_refusals, 120, each_error_names_the_violated_rule);
