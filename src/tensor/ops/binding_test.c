// The public table compared with the rows it is made of: a binding that uses nothing else reaches every
// operator.
#include <gradwire/binding.h>

#include "base/mem.h"
#include "testing/op_expect.h"
#include "testing/samples.h"

#include <pthread.h>

// ---- Calling ------------------------------------------------------------------------------------
static void expect_same_bits(const gw_tensor *x, const gw_tensor *y) {
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->dims, y->dims);
    assert_memory_equal(x->sizes, y->sizes, x->dims * sizeof *x->sizes);
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    uint8_t *values[2];
    for (int i = 0; i < 2; i++) {
        values[i] = mem_alloc(((size_t)x->numel + 1) * size);
        copy_packed((gw_dtype)x->dtype, values[i], i ? y : x);
    }
    assert_memory_equal(values[0], values[1], (size_t)x->numel * size);
    mem_free(values[0]);
    mem_free(values[1]);
}

// Result |i| of a call of |o|.
static gw_tensor *result_at(gw_scope *s, const gw_operator *o, gw_value v, int i) {
    return gw_tensor_of(s, o->result_count == 1 ? v : gw_list_get(s, v.as.list, i));
}

static int count_of(gw_scope *s, const gw_operator *o, gw_value v) {
    if (o->result_count == 1) return 1;
    int count = gw_list_count(gw_list_of(s, v));
    if (o->result_count != GW_OPERATOR_LIST) assert_int_equal(count, o->result_count);
    return count;
}

static void call_by_name(op_sampler *p, const gw_value *args, int arg_count) {
    const gw_operator *o = gw_operator_find(p->op->name);
    gw_scope *s = gw_scope_open(p->scope);
    gw_tensor *direct[2];
    gw_seed(s, 1);
    direct[0] = op_run(s, p->op, args, arg_count, &direct[1]);
    gw_seed(s, 1);
    gw_value v = gw_operator_call(s, o, args, arg_count);
    for (int i = 0; i < count_of(s, o, v) && i < 2; i++)
        expect_same_bits(result_at(s, o, v, i), direct[i]);

    // Omitted arguments have the defaults of the table.
    gw_value full[GW_OPERATOR_ARGUMENTS_MAX];
    for (int i = 0; i < o->argument_count; i++) {
        full[i] = i < arg_count ? args[i] : gw_none();
        if (full[i].kind == GW_NONE) full[i] = o->arguments[i].otherwise;
    }
    gw_seed(s, 1);
    gw_value w = gw_operator_call(s, o, full, o->argument_count);
    assert_int_equal(count_of(s, o, v), count_of(s, o, w));
    for (int i = 0; i < count_of(s, o, v); i++)
        expect_same_bits(result_at(s, o, w, i), result_at(s, o, v, i));
    assert_string_equal(gw_scope_error(s)->text, "");
    gw_scope_close_up(s);
}

static void it_calls_every_operator_by_its_row(void **state) {
    (void)state;
    assert_true(gw_operator_count() > 0);
    for (int i = 0; i < gw_operator_count(); i++) {
        op_sampler p = { .scope = gw_scope_open(NULL),
                         .op = op_find(gw_operator_at(i)->name),
                         .real = GW_F32,
                         .seed = 5,
                         .run = call_by_name };
        testing_note("gw.%s", p.op->name);
        samples_make(&p);
        assert_true(p.call_count > 0);
        gw_scope_close_up(p.scope);
    }
}

static void a_failed_call_returns_usable_poison(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_value args[] = { gw_value_of(gw_ones(s, GW_F32, 2)), gw_value_of("two") };
    gw_value v = gw_operator_call(s, gw_operator_find("add"), args, 2);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text,
                        "gw.add: b must be a tensor or a number, not string");
    v = gw_operator_call(s, gw_operator_find("exp"), &v, 1);
    assert_true(v.kind == GW_TENSOR && gw_item(s, v.as.tensor) == 0);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

// ---- Looking ------------------------------------------------------------------------------------
static void it_describes_the_parameters_of_an_operator(void **state) {
    (void)state;
    const gw_operator *o = gw_operator_find("gw.smooth_l1");
    assert_ptr_equal(o, gw_operator_find("smooth_l1"));
    assert_string_equal(o->name, "smooth_l1");
    assert_int_equal(o->argument_count, 4);
    assert_string_equal(o->arguments[0].name, "x");
    assert_int_equal(o->arguments[0].kind, GW_ARGUMENT_TENSOR);
    assert_false(o->arguments[1].optional);
    assert_string_equal(o->arguments[3].name, "beta");
    assert_int_equal(o->arguments[3].kind, GW_ARGUMENT_FLOAT);
    assert_true(o->arguments[3].optional);
    assert_true(o->arguments[3].otherwise.as.real == 1.0);
    assert_int_equal(o->result_count, 1);
    assert_true(o->has_gradient);

    o = gw_operator_find("layer_norm");
    assert_true(o->arguments[4].otherwise.as.real == 1e-5);
    assert_int_equal(o->arguments[1].kind, GW_ARGUMENT_INTS);
    assert_int_equal(gw_operator_find("sort")->result_count, 2);
    assert_int_equal(gw_operator_find("split")->result_count, GW_OPERATOR_LIST);
    o = gw_operator_find("nll");
    assert_string_equal(o->arguments[3].name, "ignore_index");
    assert_int_equal(o->arguments[3].otherwise.as.integer, -100);
    assert_int_equal(gw_operator_find("cat")->arguments[0].kind, GW_ARGUMENT_TENSORS);
    assert_int_equal(gw_operator_find("zeros")->arguments[0].kind, GW_ARGUMENT_DTYPE);
    assert_false(gw_operator_find("argmax")->has_gradient);

    assert_null(gw_operator_find("no_such_operator"));
    assert_null(gw_operator_at(-1));
    assert_null(gw_operator_at(gw_operator_count()));
}

// ---- Counts -------------------------------------------------------------------------------------
static void a_retained_handle_outlives_its_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_retain(gw_full(s, GW_F32, 3));
    gw_list *list = gw_retain(gw_list_open(s));
    gw_list_add(s, list, x);
    gw_scope_close_up(s);
    s = gw_scope_open(NULL);
    assert_true(gw_item(s, gw_tensor_of(s, gw_list_get(s, list, 0))) == 3);
    gw_keep(s, list);
    gw_release(list);
    gw_scope_close_up(s);
    assert_true(*(const float *)gw_data(x) == 3);
    gw_release(x);
    assert_null(gw_retain((gw_tensor *)NULL));
    gw_release((gw_tensor *)NULL);
}

static void *release(void *x) {
    gw_release((gw_tensor *)x);
    return NULL;
}

static void a_handle_is_released_on_any_thread(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_retain(gw_requires_grad(s, gw_ones(s, GW_F32, 3)));
    gw_tensor *y = gw_retain(gw_exp(s, x));
    gw_scope_close_up(s);
    gw_release(x);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release, y), 0);
    pthread_join(thread, NULL);
}

GW_TESTS(tensor_binding, it_calls_every_operator_by_its_row, a_failed_call_returns_usable_poison,
         it_describes_the_parameters_of_an_operator, a_retained_handle_outlives_its_scope,
         a_handle_is_released_on_any_thread);
