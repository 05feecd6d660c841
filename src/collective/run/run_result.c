// The result of a run for its program.
#include "collective/run/run.h"

#include "base/value.h"

#include <string.h>

// ---- Sums ---------------------------------------------------------------------------------------

// Of the shape of this member's input, with the rows that it receives.
static gw_tensor *open_sum(run *r, int64_t elements) {
    const gw_tensor *x = r->own;
    int64_t sizes[LIMIT_DIMS] = { 0 };
    int dims = x->dims;
    memcpy(sizes, x->sizes, (size_t)dims * sizeof *sizes);
    if (r->signature.operation == OPERATION_REDUCE_SCATTER) {
        int64_t equal = x->sizes[0] / r->group->count;
        sizes[0] = r->shares ? r->shares[r->group->self] : equal;
    } else if (elements == 0 && x->numel) {  // at the root
        dims = 1;
        sizes[0] = 0;
    }
    return run_open_places(r, (gw_dtype)x->dtype, dims, sizes);
}

static void open_rows_before(run *r);

// The inputs of a join are in the result, which has all elements in order.
static void place_joined(run *r) {
    const plan *p = &r->plan;
    for (int i = 0; i < p->step_count; i++) {
        const plan_step *x = &p->steps[i];
        if (x->kind != STEP_JOIN) continue;
        r->output_at[i] = (int64_t)x->first;
        for (int k = 0; k < x->input_count; k++) {
            int from = p->inputs[x->first_input + k];
            r->output_at[from] = (int64_t)p->steps[from].first;
        }
    }
}

bool run_open_result(run *r) {
    const plan *p = &r->plan;
    if (r->has_opened) return gw_ok(r->scope);
    r->has_opened = true;
    for (int i = 0; i < p->step_count; i++) r->output_at[i] = -1;
    int64_t at = 0;
    for (int i = 0; i < p->output_count; i++) {
        if (p->outputs[i].step != INPUT_OWN) r->output_at[p->outputs[i].step] = at;
        at += (int64_t)p->outputs[i].count;
    }
    if (r->backend) return true;
    place_joined(r);
    if (signature_is_reduction(&r->signature))
        r->result = open_sum(r, at);
    else
        open_rows_before(r);
    return gw_ok(r->scope);
}

bool run_find_place(const run *r, int step, segment *out) {
    const gw_tensor *whole = r->result ? r->result : r->rows;
    if (!whole || r->output_at[step] < 0) return false;
    size_t size = gw_dtype_size((gw_dtype)whole->dtype);
    uint64_t count =
        r->result ? r->plan.steps[step].count : (uint64_t)(whole->numel / r->group->count);
    *out = (segment){ .block = whole->storage->block,
                      .offset = tensor_offset(whole) + (size_t)r->output_at[step] * size,
                      .size = (size_t)count * size };
    return true;
}

// ---- Rows ---------------------------------------------------------------------------------------

static int64_t row_count(const gw_tensor *x) {
    return x->dims ? x->sizes[0] : 1;
}

static gw_tensor *open_rows(run *r, const gw_tensor *x, int64_t count) {
    int64_t sizes[LIMIT_DIMS] = { 0 };
    if (x->dims) memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    sizes[0] = count;
    return run_open_places(r, (gw_dtype)x->dtype, x->dims ? x->dims : 1, sizes);
}

// The rows of the result, if all members have as many as this one.
static int64_t guess_rows(const run *r) {
    if (r->signature.operation != OPERATION_ALL_TO_ALL) return row_count(r->own);
    return r->shares ? 0 : r->own->sizes[0] / r->group->count;
}

// Large rows are received in place, in the result (GRP-1); if the guess is wrong they are copied at the end.
static void open_rows_before(run *r) {
    int count = r->group->count;
    bool gives_rows = r->signature.content == CONTENT_TENSOR && r->own &&
                      r->plan.output_count == count && count > 1;
    int64_t each = gives_rows ? guess_rows(r) : 0;
    uint64_t row_bytes = each ? tensor_size(r->own) / (uint64_t)row_count(r->own) : 0;
    if ((uint64_t)each * row_bytes <= LIMIT_FRAME_BYTES) return;
    r->rows = open_rows(r, r->own, each * count);
    for (int i = 0; r->rows && i < count; i++) {
        int step = r->plan.outputs[i].step;
        if (step != INPUT_OWN) r->output_at[step] = r->rows->numel / count * i;
    }
}

static bool is_as_guessed(run *r) {
    for (int i = 0; r->rows && i < r->plan.output_count; i++) {
        gw_value v = run_output_value(r, &r->plan.outputs[i]);
        if (v.kind != GW_TENSOR || v.as.tensor->numel != r->rows->numel / r->group->count)
            return false;
    }
    return r->rows;
}

static gw_tensor *open_rows_for_all(run *r, const gw_tensor *like) {
    int64_t count = 0;
    for (int i = 0; i < r->plan.output_count; i++) {
        gw_value v = run_output_value(r, &r->plan.outputs[i]);
        if (v.kind == GW_TENSOR) count += row_count(v.as.tensor);
    }
    return open_rows(r, like, count);
}

static gw_value join_rows(run *r, const gw_tensor *like) {
    gw_tensor *out = is_as_guessed(r) ? r->rows : open_rows_for_all(r, like);
    if (!out) return gw_none();
    uint8_t *at = run_place_at(out, 0);
    for (int i = 0; i < r->plan.output_count; i++) {
        gw_value v = run_output_value(r, &r->plan.outputs[i]);
        if (!gw_ok(r->scope)) return gw_none();
        if (v.kind != GW_TENSOR) continue;
        run_put_numbers(at, v.as.tensor);
        at += tensor_size(v.as.tensor);
    }
    return gw_value_of_tensor(out);
}

// Of a value that the root sends to all: the value itself, or the rows of its pieces.
static gw_value join_pieces(run *r) {
    gw_value first = run_output_value(r, &r->plan.outputs[0]);
    if (r->signature.content == CONTENT_TENSORS && first.kind == GW_LIST && !r->takes_gradient)
        scope_fail(r->scope, GW_INVALID,
                   "gw_scatter_from_async: a tensor needs a gradient: the root calls gw_detach on "
                   "it, or all members call gw_scatter_from");
    bool is_whole = r->plan.output_count == 1 || r->signature.content == CONTENT_VALUES ||
                    first.kind != GW_TENSOR || !first.as.tensor->dims;
    if (is_whole) return first;
    const collective_signature *x = &r->signature;
    gw_value all = join_rows(r, first.as.tensor);
    if (x->dims != SIGNATURE_OPEN && gw_ok(r->scope) && all.as.tensor->sizes[0] != x->sizes[0])
        scope_fail(r->scope, GW_PROTOCOL, "the received value has %lld rows, not %lld",
                   (long long)all.as.tensor->sizes[0], (long long)x->sizes[0]);
    return all;
}

// ---- Other results ------------------------------------------------------------------------------

static gw_value list_outputs(run *r) {
    gw_list *list = gw_list_open(r->scope);
    for (int i = 0; i < r->plan.output_count; i++)
        gw_list_add_with(r->scope, list, run_output_value(r, &r->plan.outputs[i]));
    return gw_value_of_list(list);
}

// Rows of the members in the result; 0 for the others.
static gw_value list_with_rows(run *r, gw_value result) {
    int count = r->group->count;
    int64_t *rows = gw_alloc(r->scope, (size_t)count * sizeof *rows);
    for (int i = 0; rows && i < count; i++) {
        bool has = i < r->plan.output_count;
        rows[i] = has ? row_count(run_output_value(r, &r->plan.outputs[i]).as.tensor) : 0;
    }
    gw_list *list = gw_list_open(r->scope);
    gw_list_add_with(r->scope, list, result);
    if (rows) gw_list_add(r->scope, list, gw_from(r->scope, rows, count));
    return gw_value_of_list(list);
}

gw_value run_make_result(run *r) {
    if (r->result) return gw_value_of_tensor(r->result);
    if (r->signature.operation == OPERATION_BARRIER) return gw_none();
    if (r->as_list) return list_outputs(r);
    if (signature_is_rows(&r->signature)) return run_join_sparse(r);
    if (r->signature.operation == OPERATION_BROADCAST ||
        r->signature.operation == OPERATION_SCATTER)
        return join_pieces(r);
    gw_value rows = join_rows(r, r->own);
    return r->with_rows && gw_ok(r->scope) ? list_with_rows(r, rows) : rows;
}
