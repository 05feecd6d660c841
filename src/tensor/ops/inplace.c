// Writing into a tensor, and copy_. The operators that compute what they write are in inplace_values.c.
//
// Note [Writing in place]
//
// The result is computed apart from its target and then moved in: by exchanging blocks where the target
// is all of its storage, which costs no copy, else by storage_writable, so that other holders of
// the old values keep them. Where gradients are on, the target's node goes the same way. Nodes
// refer to tensors only by their makers, so results of the old values stay right. Another
// view of the storage has a node of its own, though, which would not see the change: that is
// refused.
#include "tensor/ops/inplace.h"

#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/pack.h"
#include <gradwire/ops.h>

#include <stdio.h>

// ---- Checks of the target ------------------------------------------------------------------------
static bool overlaps(const gw_tensor *x) {
    for (int i = 0; i < x->dims; i++)
        if (x->strides[i] == 0 && x->sizes[i] > 1 && x->numel) return true;
    return false;
}

static bool check_operand(gw_scope *s, const char *name, const gw_tensor *x) {
    char what[32];
    snprintf(what, sizeof what, "gw.%s", name);
    return tensor_is_given(s, what, x);
}

bool inplace_may_write(gw_scope *s, const char *name, const gw_tensor *x) {
    if (!check_operand(s, name, x)) return false;
    if (tensor_is_rows(x)) {
        scope_fail(s, GW_INVALID, "gw.%s: the target is sparse by rows; gw_to_dense makes it dense",
                   name);
    } else if (s->grad_enabled && tensor_is_leaf_with_grad(x)) {
        scope_fail(s, GW_INVALID,
                   "gw.%s: the target is a leaf that needs a gradient: it can be written only "
                   "after gw_no_grad",
                   name);
    } else if (overlaps(x)) {
        scope_fail(s, GW_INVALID, "gw.%s: elements of the target share memory", name);
    }
    return !s->error;
}

// Whether |x| can take on the history of |result|, or lose its own.
static bool may_record(gw_scope *s, const char *name, const gw_tensor *x, const gw_tensor *result) {
    if (!s->grad_enabled || (!x->node && !result->node)) return true;
    if (atomic_load_explicit(&x->storage->count, memory_order_relaxed) == 1) return true;
    scope_fail(s, GW_INVALID,
               "gw.%s: the target shares its values with another tensor, whose gradient would then "
               "be wrong: gw_clone copies it",
               name);
    return false;
}

// Bools go into anything, integers into integers and floats, floats into floats.
static bool converts(gw_dtype from, gw_dtype to) {
    return from == GW_BOOL8 || (to != GW_BOOL8 && (dtype_is_float(to) || !dtype_is_float(from)));
}

static bool fits(gw_scope *s, const char *name, const gw_tensor *x, const gw_tensor *result) {
    gw_dtype from = (gw_dtype)result->dtype, to = (gw_dtype)x->dtype;
    if (!tensor_has_shape_of(x, result))
        scope_fail(s, GW_INVALID, "gw.%s: a result of %s cannot be written into a target of %s",
                   name, shape_text(result).text, shape_text(x).text);
    else if (!converts(from, to))
        scope_fail(s, GW_INVALID, "gw.%s: a result of %s cannot be written into a target of %s",
                   name, gw_dtype_name(from), gw_dtype_name(to));
    return !s->error;
}

// ---- Moving in ----------------------------------------------------------------------------------
static bool is_all_of_its_block(const gw_tensor *x) {
    const block *b = x->storage->block;
    return x->contiguous && x->offset == 0 && !b->external && !x->storage->pins &&
           (size_t)x->numel * gw_dtype_size((gw_dtype)x->dtype) == b->size;
}

// Of the shape and dtype of |x|, whose block is its own by now.
static void write_values(gw_tensor *x, const gw_tensor *result) {
    if (x->device == GW_CPU && result->device == GW_CPU)
        copy_values(x, (uint8_t *)tensor_bytes(x), result);
    else
        tensor_assign(x, result);
}

// |result| is new and has no other holder.
static void move_values(gw_scope *s, gw_tensor *x, gw_tensor *result) {
    bool alike = x->device == result->device;
    if (alike && is_all_of_its_block(x) && is_all_of_its_block(result)) {
        block *old = x->storage->block;
        block_replace_kind(old, result->storage->block);
        x->storage->block = result->storage->block;
        result->storage->block = old;
        x->storage->version++;
        return;
    }
    if (storage_make_writable(x->storage))
        write_values(x, result);
    else
        scope_fail(s, GW_NO_MEMORY, "no memory to write into a tensor of %s", shape_text(x).text);
}

// |result| goes with the old history.
static void exchange_histories(gw_tensor *x, gw_tensor *result) {
    const struct tape *tape = x->tape;
    struct node *node = x->node;
    uint16_t output = x->output;
    x->tape = result->tape;
    x->node = result->node;
    x->output = result->output;
    result->tape = tape;
    result->node = node;
    result->output = output;
}

gw_tensor *inplace_put(gw_scope *s, const char *name, gw_tensor *x, gw_tensor *result) {
    if (s->error || !fits(s, name, x, result)) return tensor_poison_of(s);
    if (result->dtype != x->dtype) {
        gw_tensor *converted = gw_to_dtype(s, result, (gw_dtype)x->dtype);
        gw_drop(s, result);
        result = converted;
    }
    if (s->error || !may_record(s, name, x, result)) return tensor_poison_of(s);
    move_values(s, x, result);
    if (s->error) return tensor_poison_of(s);
    if (s->grad_enabled) exchange_histories(x, result);
    gw_drop(s, result);
    return x;
}

// ---- copy_ --------------------------------------------------------------------------------------
static bool broadcasts_into(gw_scope *s, const gw_tensor *x, const gw_tensor *source) {
    bool fits = source->dims <= x->dims;
    for (int i = 1; i <= source->dims && fits; i++) {
        int64_t from = source->sizes[source->dims - i];
        fits = from == 1 || from == x->sizes[x->dims - i];
    }
    if (!fits)
        scope_fail_of(s, "gw.copy_", GW_INVALID, "%s does not fit into %s", shape_text(source).text,
                      shape_text(x).text);
    return fits;
}

static gw_tensor *copy_recorded(gw_scope *s, gw_tensor *x, gw_tensor *source) {
    gw_tensor *spread = gw_expand_with(s, source, (gw_shape){ x->dims, x->sizes });
    gw_tensor *converted = gw_to_dtype(s, spread, (gw_dtype)x->dtype);
    gw_tensor *result = gw_clone(s, converted);
    gw_drop(s, converted);  // views of the source, which may be written in place itself
    gw_drop(s, spread);
    return inplace_put(s, "copy_", x, result);
}

static gw_tensor *copy_plain(gw_scope *s, gw_tensor *x, gw_tensor *source) {
    gw_tensor *aside = NULL;
    if (source->storage == x->storage) {
        aside = tensor_new(s, (gw_dtype)source->dtype, source->dims, source->sizes);
        if (!aside) return tensor_poison_of(s);
        copy_into_new(aside, source);
    }
    uint8_t *bytes = gw_data_for_write(s, x);
    if (bytes) copy_values(x, bytes, aside ? aside : source);
    handle_release(aside);
    return bytes ? x : tensor_poison_of(s);
}

// Where one of them is not on the CPU: broadcast and converted there, then moved.
static gw_tensor *copy_across(gw_scope *s, gw_tensor *x, gw_tensor *source) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *here = tensor_to_device(t, source, GW_CPU);
    gw_tensor *fits = tensor_new(t, (gw_dtype)x->dtype, x->dims, x->sizes);
    if (fits && gw_ok(t)) {
        copy_into_new(fits, here);
        move_values(t, x, fits);
    }
    handle_release(fits);
    gw_scope_close_up(t);
    return gw_ok(s) ? x : tensor_poison_of(s);
}

gw_tensor *gw_copy_(gw_scope *s, gw_tensor *x, gw_tensor *source) {
    if (!inplace_may_write(s, "copy_", x) || !check_operand(s, "copy_", source))
        return tensor_poison_of(s);
    if (tensor_is_rows(source)) {
        scope_fail_of(s, "gw.copy_", GW_INVALID,
                      "the source is sparse by rows; gw_to_dense makes it dense");
        return tensor_poison_of(s);
    }
    if (!broadcasts_into(s, x, source)) return tensor_poison_of(s);
    bool recorded = s->grad_enabled && (x->node || tensor_needs_grad(source));
    if (recorded) return copy_recorded(s, x, tensor_to_device(s, source, (gw_device)x->device));
    bool plain = x->device == GW_CPU && source->device == GW_CPU;
    return plain ? copy_plain(s, x, source) : copy_across(s, x, source);
}
