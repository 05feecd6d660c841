// The battery: the requirements on every row of the table, tested with the samples of the row.
// Values are compared with naive loops and with PyTorch's in the tests of each file; derivatives in
// src/autograd/.
#include "tensor/ops/op.h"
#include "base/mem.h"
#include "base/value.h"
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "testing/samples.h"
#include "testing/testing.h"

#include <gradwire/ops.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES_MAX = 64 };

typedef void each_sample(op_sampler *p, const gw_value *args, int arg_count);

// Runs |f| on every sample of every row, in f32, f64, f16 and bf16.
static void for_each_sample(each_sample *f) {
    const gw_dtype reals[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    for (const op *const *o = op_table; *o; o++) {
        for (int i = 0; i < 4; i++) {
            op_sampler p = {
                .scope = gw_scope_open(NULL), .op = *o, .real = reals[i], .run = f, .seed = 7
            };
            testing_note("gw.%s in %s", (*o)->name, gw_dtype_name(reals[i]));
            samples_make(&p);
            assert_string_equal(gw_scope_error(p.scope)->text, "");
            assert_true(p.call_count > 0);
            gw_scope_close_up(p.scope);
        }
    }
}

// The first output, or NULL if the row refuses (some have no halves); counts the runs.
static gw_tensor *run_in(gw_scope *s, const op *o, const gw_value *args, int arg_count) {
    gw_seed(s, 1);
    gw_tensor *other = NULL, *y = op_run(s, o, args, arg_count, &other);
    return gw_ok(s) ? y : NULL;
}

static bool is_real_case(const op_sampler *p) {
    return p->real == GW_F32 || p->real == GW_F64;
}

// ---- Rows ---------------------------------------------------------------------------------------
static bool is_kind(const char *kind, size_t size) {
    static const char *const kinds[] = { "tensor", "operand", "number",  "int",  "float",
                                         "bool",   "ints",    "tensors", "dtype" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) == size && memcmp(kinds[i], kind, size) == 0) return true;
    return false;
}

static void its_rows_are_valid(void **state) {
    (void)state;
    for (const op *const *o = op_table; *o; o++) {
        testing_note("gw.%s", (*o)->name);
        assert_ptr_equal(op_find((*o)->name), *o);
        assert_non_null((*o)->infer);
        int count = 0;
        op_param p;
        for (const char *at = (*o)->params; op_param_next(&at, &p); count++) {
            assert_true(p.name_size > 0 && !memchr(p.name, ' ', (size_t)p.name_size));
            assert_true(is_kind(p.kind, (size_t)p.kind_size));
            const char *end = p.kind + p.kind_size;
            assert_true(!*end || strchr(" ?", *end));
            if (end[0] == '?') assert_true(!end[1] || strchr(" =", end[1]));
            if (p.number) assert_true(op_param_fits(&p, op_param_otherwise(&p)));
        }
        assert_true(count > 0 && count <= OP_ARGS_MAX);
        assert_true((*o)->results == OP_LIST || (*o)->results != 1);
    }
    assert_null(op_find("no_such_row"));
}

// ---- Outputs ------------------------------------------------------------------------------------
static void check_layout(const gw_tensor *x) {
    int64_t numel = 1, stride = 1, last = x->offset;
    bool contiguous = true;
    for (int i = x->dims - 1; i >= 0; i--) {
        assert_true(x->sizes[i] >= 0 && x->strides[i] >= 0);
        contiguous &= x->sizes[i] == 1 || x->strides[i] == stride;
        stride *= x->sizes[i];
        numel *= x->sizes[i];
        last += (x->sizes[i] - 1) * x->strides[i];
    }
    assert_int_equal(x->numel, numel);
    assert_int_equal(x->contiguous, contiguous || numel == 0);
    assert_true(x->offset >= 0);
    if (numel)
        assert_true((size_t)(last + 1) * gw_dtype_size((gw_dtype)x->dtype) <=
                    x->storage->block->size);
}

static void check_values(const gw_tensor *x) {
    if (x->dtype != GW_BOOL8 || !x->contiguous) return;
    for (int64_t i = 0; i < x->numel; i++) assert_true(tensor_bytes(x)[i] <= 1);
}

static void run_and_check(op_sampler *p, const gw_value *args, int arg_count) {
    gw_scope *s = gw_scope_open(p->scope);
    gw_tensor *other = NULL, *y = op_run(s, p->op, args, arg_count, &other);
    if (is_real_case(p)) assert_string_equal(gw_scope_error(s)->text, "");
    if (gw_ok(s)) {
        check_layout(y);
        check_values(y);
        if (other) check_layout(other);
    }
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_runs_every_sample(void **state) {
    (void)state;
    for_each_sample(run_and_check);
}

// ---- Arguments ----------------------------------------------------------------------------------
typedef struct snapshot {
    const gw_tensor *x;
    uint32_t version;
    void *bytes;
} snapshot;

typedef struct snapshots {
    snapshot of[SAMPLES_MAX];
    int count;
} snapshots;

static void take_snapshots(op_sampler *p, snapshots *all, gw_value v) {
    if (v.kind == GW_LIST)
        for (int i = 0; i < v.as.list->count; i++) take_snapshots(p, all, v.as.list->items[i]);
    if (v.kind != GW_TENSOR) return;
    block *b = v.as.tensor->storage->block;
    void *bytes = gw_alloc(p->scope, b->size ? b->size : 1);
    memcpy(bytes, b->bytes, b->size);
    assert_true(all->count < SAMPLES_MAX);
    all->of[all->count++] = (snapshot){ v.as.tensor, v.as.tensor->storage->version, bytes };
}

static void run_and_compare_args(op_sampler *p, const gw_value *args, int arg_count) {
    snapshots all = { 0 };
    for (int i = 0; i < arg_count; i++) take_snapshots(p, &all, args[i]);
    gw_scope *s = gw_scope_open(p->scope);
    run_in(s, p->op, args, arg_count);
    for (int i = 0; i < all.count; i++) {
        const storage *st = all.of[i].x->storage;
        assert_int_equal(st->version, all.of[i].version);
        assert_memory_equal(st->block->bytes, all.of[i].bytes, st->block->size);
        assert_int_equal(st->block->pins, 0);
    }
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_leaves_its_arguments_alone(void **state) {
    (void)state;
    for_each_sample(run_and_compare_args);
}

// The same values with gaps between them, the last dimension far apart, and an offset.
static gw_tensor *spread(gw_scope *s, const gw_tensor *x) {
    int64_t sizes[GW_DIMS_MAX] = { 0 }, strides[GW_DIMS_MAX], stride = 2;
    for (int i = 0; i < x->dims; i++) {
        strides[i] = stride;
        stride *= x->sizes[i] ? x->sizes[i] : 1;
    }
    sizes[0] = 1 + stride;
    gw_tensor *base = scope_own(s, tensor_new(s, (gw_dtype)x->dtype, 1, sizes));
    memset(base->storage->block->bytes, 0, base->storage->block->size);
    gw_tensor *y = scope_own(s, tensor_view(s, base, x->dims, x->sizes, strides, 1));
    copy_values(y, (uint8_t *)tensor_bytes(y), x);
    return y;
}

static gw_value spread_value(gw_scope *s, gw_value v) {
    if (v.kind == GW_TENSOR) return gw_value_of(spread(s, v.as.tensor));
    if (v.kind != GW_LIST) return v;
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < v.as.list->count; i++)
        gw_list_add_with(s, list, spread_value(s, v.as.list->items[i]));
    return gw_value_of(list);
}

static void assert_same(gw_scope *s, const op *o, gw_tensor *a, gw_tensor *b) {
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->dims, b->dims);
    for (int i = 0; i < a->dims; i++) assert_int_equal(a->sizes[i], b->sizes[i]);
    (void)o;
    double tolerance = a->dtype == GW_F64 ? 1e-12 : a->dtype == GW_F32 ? 1e-5 : 1e-2;
    gw_tensor *x = gw_reshape_with(s, a, GW_SHAPE(-1 + (a->numel == 0)));
    gw_tensor *y = gw_reshape_with(s, b, GW_SHAPE(-1 + (b->numel == 0)));
    for (int64_t i = 0; i < a->numel; i++) {
        double u = gw_item(s, gw_select(s, x, 0, i)), v = gw_item(s, gw_select(s, y, 0, i));
        assert_true(u == v || (isnan(u) && isnan(v)) || fabs(u - v) <= tolerance * (1 + fabs(u)));
    }
}

static void run_spread(op_sampler *p, const gw_value *args, int arg_count) {
    if (strcmp(p->op->name, "view") == 0) return;  // which may well refuse
    gw_scope *s = gw_scope_open(p->scope);
    gw_value apart[OP_ARGS_MAX];
    for (int i = 0; i < arg_count; i++) apart[i] = spread_value(s, args[i]);
    gw_tensor *x = run_in(s, p->op, args, arg_count);
    gw_tensor *y = x ? run_in(s, p->op, apart, arg_count) : NULL;
    if (is_real_case(p)) assert_string_equal(gw_scope_error(s)->text, "");
    if (x) {
        assert_non_null(y);
        check_layout(y);
        assert_same(s, p->op, x, y);
    }
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_takes_tensors_of_any_layout(void **state) {
    (void)state;
    for_each_sample(run_spread);
}

// ---- Wrong arguments ----------------------------------------------------------------------------
static void assert_refused(op_sampler *p, const gw_value *args, int arg_count) {
    gw_scope *s = gw_scope_open(p->scope);
    gw_tensor *y = op_run(s, p->op, args, arg_count, NULL);
    assert_true(tensor_is_poison(y));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    char start[64];
    snprintf(start, sizeof start, "gw.%s: ", p->op->name);
    assert_memory_equal(gw_scope_error(s)->text, start, strlen(start));
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void run_with_wrong_kinds(op_sampler *p, const gw_value *args, int arg_count) {
    if (p->call_count > 1) return;
    gw_value wrong[OP_ARGS_MAX + 1];
    for (int i = 0; i < arg_count; i++) {
        memcpy(wrong, args, (size_t)arg_count * sizeof *args);
        wrong[i] = gw_value_of("wrong");
        testing_note("gw.%s with a string as argument %d", p->op->name, i);
        assert_refused(p, wrong, arg_count);
        if (args[i].kind == GW_NONE) continue;
        gw_error error = { 0 };
        wrong[i] = gw_value_of(&error);
        assert_refused(p, wrong, arg_count);
    }
    memcpy(wrong, args, (size_t)arg_count * sizeof *args);
    for (int i = arg_count; i <= OP_ARGS_MAX; i++) wrong[i] = gw_none();
    testing_note("gw.%s with too many arguments", p->op->name);
    assert_refused(p, wrong, OP_ARGS_MAX + 1);
    testing_note("gw.%s with none", p->op->name);
    assert_refused(p, wrong, 0);
}

static void it_refuses_arguments_of_a_wrong_kind(void **state) {
    (void)state;
    for_each_sample(run_with_wrong_kinds);
}

// ---- Failed scopes, poison ----------------------------------------------------------------------
static void run_failed(op_sampler *p, const gw_value *args, int arg_count) {
    gw_scope *s = gw_scope_open(p->scope);
    gw_tensor *other = NULL;
    for (int i = 0; i < arg_count; i++) {
        if (args[i].kind != GW_TENSOR) continue;
        gw_value poisoned[OP_ARGS_MAX];
        memcpy(poisoned, args, (size_t)arg_count * sizeof *args);
        poisoned[i] = gw_value_of(&tensor_poison);
        assert_true(tensor_is_poison(op_run(s, p->op, poisoned, arg_count, &other)));
        assert_true(tensor_is_poison(other));
        assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
        assert_non_null(strstr(gw_scope_error(s)->text, "in a scope that has failed"));
        gw_scope_clear(s);
    }
    gw_fail(s, GW_CANCELLED, "first");
    assert_true(tensor_is_poison(op_run(s, p->op, args, arg_count, &other)));
    assert_true(tensor_is_poison(other));
    assert_string_equal(gw_scope_error(s)->text, "first");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_does_nothing_in_a_failed_scope_and_refuses_poison(void **state) {
    (void)state;
    for_each_sample(run_failed);
}

// ---- Memory -------------------------------------------------------------------------------------
typedef struct failing {
    const op *op;
    const gw_value *args;
    int arg_count;
} failing;

static void run_without_memory(void *context) {
    const failing *f = context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *y = op_run(s, f->op, f->args, f->arg_count, NULL);
    assert_non_null(y);
    if (!gw_ok(s)) {
        assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
        assert_true(tensor_is_poison(y));
    }
    gw_error error = gw_scope_close(s);
    (void)error;
}

static void run_each_without_memory(op_sampler *p, const gw_value *args, int arg_count) {
    if (p->real == GW_F64 || p->real == GW_BF16) return;
    failing f = { p->op, args, arg_count };
    testing_alloc_failure_loop(run_without_memory, &f);
}

static void it_survives_without_memory_and_leaks_nothing(void **state) {
    (void)state;
    for_each_sample(run_each_without_memory);
}

// ---- Running ------------------------------------------------------------------------------------
static void it_names_operator_argument_and_kind(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3);
    op_run(s, op_find("add"), (const gw_value[]){ gw_value_of(x), gw_value_of("two") }, 2, NULL);
    assert_string_equal(gw_scope_error(s)->text,
                        "gw.add: b must be a tensor or a number, not string");
    gw_scope_clear(s);
    op_run(s, op_find("transpose"), (const gw_value[]){ gw_value_of(x), gw_value_of(0) }, 2, NULL);
    assert_string_equal(gw_scope_error(s)->text, "gw.transpose: dim1 must be an int, not none");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_takes_sizes_as_bytes_and_as_a_list(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *sizes = gw_list_open(s);
    gw_list_add(s, sizes, 2);
    gw_list_add(s, sizes, 3);
    const op *zeros = op_find("zeros");
    gw_tensor *x =
        op_run(s, zeros, (const gw_value[]){ gw_value_of("i16"), gw_value_of(sizes) }, 2, NULL);
    gw_tensor *y = op_run(
        s, zeros, (const gw_value[]){ gw_value_of("i16"), value_of_ints(GW_SHAPE(2, 3)) }, 2, NULL);
    assert_true(gw_ok(s));
    assert_int_equal(x->dims, 2);
    assert_int_equal(y->dims, 2);
    assert_int_equal(gw_size(x, 1), 3);
    assert_int_equal(gw_size(y, 1), 3);
    assert_int_equal(x->dtype, GW_I16);
    gw_scope_close_up(s);
}

GW_TESTS_WITH_LIMIT(tensor_op, 120, its_rows_are_valid, it_runs_every_sample,
                    it_leaves_its_arguments_alone, it_takes_tensors_of_any_layout,
                    it_refuses_arguments_of_a_wrong_kind,
                    it_does_nothing_in_a_failed_scope_and_refuses_poison,
                    it_survives_without_memory_and_leaks_nothing,
                    it_names_operator_argument_and_kind, it_takes_sizes_as_bytes_and_as_a_list);
