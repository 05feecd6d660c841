// The results of failed operators, see Note [Poison] in tensor/tensor.h.
#include "base/mem.h"
#include "tensor/tensor.h"

#include <string.h>

// Behind the tensor, which has no sizes.
typedef struct reason {
    gw_handle *earlier;  // that of an error which the scope has forgotten
    size_t size;         // of |text| with its NUL
    char text[];
} reason;

static reason *reason_of(const gw_tensor *x) {
    return (reason *)(uintptr_t)x->sizes;
}

static void destroy(gw_handle *h) {
    gw_tensor *x = (gw_tensor *)h;
    reason *why = reason_of(x);
    handle_release(why->earlier);
    mem_give(x, sizeof *x + sizeof *why + why->size);
}

const handle_class tensor_poison_class = { .name = "tensor", .destroy = destroy };

static uint64_t poison_bytes[8];
static block poison_block = {
    .count = 1,
    .pins = 1,
    .bytes = (uint8_t *)poison_bytes,
    .size = sizeof poison_bytes,
    .external = true,
};
static storage poison_storage = { .count = 1, .block = &poison_block };
gw_tensor tensor_poison = {
    .handle = { &tensor_poison_class, HANDLE_IMMORTAL },
    .storage = &poison_storage,
    .contiguous = true,
    .strides = tensor_poison.sizes,
};

const char *tensor_poison_reason(const gw_tensor *x) {
    return x == &tensor_poison ? "it was never made" : reason_of(x)->text;
}

static void forget(gw_scope *s, void *data) {
    (void)s;
    handle_release(data);
}

gw_tensor *tensor_poison_of(gw_scope *s) {
    gw_tensor *earlier = s->slots[SCOPE_POISON].data;
    const char *text = scope_error(s)->text;
    if (!*text) return &tensor_poison;
    if (earlier && strcmp(tensor_poison_reason(earlier), text) == 0) return earlier;
    size_t size = strlen(text) + 1;
    gw_tensor *x = mem_take(sizeof *x + sizeof(reason) + size);
    if (!x) return &tensor_poison;
    memcpy(x, &tensor_poison, sizeof *x);
    handle_init(&x->handle, &tensor_poison_class);
    x->strides = x->sizes;
    reason *why = reason_of(x);
    why->earlier = earlier ? &earlier->handle : NULL;
    why->size = size;
    memcpy(why->text, text, size);
    scope_set_slot(s, SCOPE_POISON, x, forget);
    return s->slots[SCOPE_POISON].data == x
               ? x
               : &tensor_poison;  // the scope without memory keeps none
}

void tensor_check_live(const gw_tensor *x) {
    if (x && check_is_aside(x))
        check_die("an operand was dropped, or the scope that held the operand is closed");
}

bool tensor_check(gw_scope *s, const char *what, const gw_tensor *x) {
    if (s->error) return false;
    if (check_enabled) tensor_check_live(x);
    if (!tensor_is_poison(x)) return true;
    scope_fail(s, GW_INVALID, "%s: the tensor was made in a scope that has failed: %s", what,
               tensor_poison_reason(x));
    return false;
}

bool tensor_is_given(gw_scope *s, const char *what, const gw_tensor *x) {
    if (!tensor_check(s, what, x)) return false;
    if (!x) scope_fail(s, GW_INVALID, "%s: no tensor", what);
    return x != NULL;
}
