// Operators as any peer calls them: by name, with any arguments. Each call ends in values or in one
// error, and so does the backward pass behind it.
#include "base/value.h"
#include "tensor/ops/op.h"
#include "testing/fuzz_input.h"
#include <gradwire/autograd.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Mostly an argument that fits |p|.
static gw_value take_argument(fuzz_input *in, const op_param *p) {
    static const char *const kinds[] = { "tensor", "int",     "float", "bool",
                                         "ints",   "tensors", "dtype" };
    unsigned wanted = 0;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) == (size_t)p->kind_size &&
            !memcmp(kinds[i], p->kind, (size_t)p->kind_size))
            wanted = i;
    unsigned how = fuzz_take(in, 16);
    if (how == 0) return fuzz_take_value(in, fuzz_take(in, FUZZ_KIND_COUNT));
    if (p->kind[0] == 'n' || (p->kind[0] == 'o' && how < 6))
        return fuzz_take_value(in, 1 + fuzz_take(in, 3));
    if (p->optional && how < 6) return gw_none();
    return fuzz_take_value(in, wanted);
}

static int take_arguments(fuzz_input *in, const op *o, gw_value *args) {
    const char *at = o->params;
    op_param p;
    int count = 0;
    while (op_param_next(&at, &p)) args[count++] = take_argument(in, &p);
    return count - (int)fuzz_take(in, 8) / 7;
}

// ---- Calls --------------------------------------------------------------------------------------
static void run_back(gw_scope *s, gw_value v) {
    if (v.kind == GW_LIST && v.as.list->count) v = v.as.list->items[0];
    if (v.kind != GW_TENSOR || !gw_needs_grad(v.as.tensor)) return;
    gw_backward(s, v.as.tensor, .gradient = gw_ones_like(s, v.as.tensor));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int rows = 0;
    while (op_table[rows]) rows++;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 1);
    s->tensor_bytes_max = FUZZ_TENSOR_BYTES_MAX;
    fuzz_input in = { data, data + size, s };
    const op *o = op_table[fuzz_take(&in, (unsigned)rows)];
    gw_value args[OP_ARGS_MAX];
    int count = take_arguments(&in, o, args);
    if (gw_ok(s)) {
        gw_value v = op_run_value(s, o, args, count);
        if (gw_ok(s)) run_back(s, v);
        if (!gw_ok(s) && !gw_scope_error(s)->text[0]) abort();
    }
    gw_error error = gw_scope_close(s);
    (void)error;
    return 0;
}
