#include "testing/op_expect.h"

#include <string.h>

static void it_walks_the_words_of_a_row(void **state) {
    (void)state;
    const char *at = "x:tensor eps:float?=1e-5 dim:int? keep:bool?=true";
    static const char *const names[] = { "x", "eps", "dim", "keep" };
    static const char *const kinds[] = { "tensor", "float", "int", "bool" };
    op_param p;
    for (int i = 0; i < 4; i++) {
        assert_true(op_param_next(&at, &p));
        assert_int_equal(p.name_size, strlen(names[i]));
        assert_memory_equal(p.name, names[i], strlen(names[i]));
        assert_int_equal(p.kind_size, strlen(kinds[i]));
        assert_memory_equal(p.kind, kinds[i], strlen(kinds[i]));
        assert_int_equal(p.optional, i > 0);
    }
    assert_false(op_param_next(&at, &p));
}

static gw_value otherwise(const char *row) {
    op_param p;
    assert_true(op_param_next(&row, &p));
    return op_param_otherwise(&p);
}

static void it_reads_default_values(void **state) {
    (void)state;
    assert_int_equal(otherwise("x:tensor").kind, GW_NONE);
    assert_int_equal(otherwise("x:tensor? y:int?=3").kind, GW_NONE);
    gw_value v = otherwise("n:int?=-100 y:int?=3");
    assert_true(v.kind == GW_INT && v.as.integer == -100);
    v = otherwise("keep:bool?=true");
    assert_true(v.kind == GW_BOOL && v.as.boolean);
    v = otherwise("keep:bool?=false x:int");
    assert_true(v.kind == GW_BOOL && !v.as.boolean);
    static const struct {
        const char *row;
        double number;
    } floats[] = { { "p:float?=0.1", 0.1 },       { "p:float?=-2.5 x:int", -2.5 },
                   { "p:float?=1e-5", 1e-5 },     { "p:float?=1e-8 x:int", 1e-8 },
                   { "p:float?=2.5e-3", 2.5e-3 }, { "p:float?=0.0", 0 } };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        v = otherwise(floats[i].row);
        assert_true(v.kind == GW_FLOAT && v.as.real == floats[i].number);
    }
}

static void omitted_arguments_get_defaults(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 3, 0 }), 2), *t = gw_zeros(s, GW_F32, 2);
    gw_value args[] = { gw_value_of(x), gw_value_of(t), gw_none(), gw_value_of(2.0) };
    const op *o = op_find("smooth_l1");
    expect_text(s, op_run(s, o, args, 4, NULL), GW_F32, "tensor(1.)");  // reduction in the middle
    expect_text(s, op_run(s, o, args, 2, NULL), GW_F32, "tensor(1.2500)");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_params, it_walks_the_words_of_a_row, it_reads_default_values,
         omitted_arguments_get_defaults);
