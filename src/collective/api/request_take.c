// The tensor of a form that waits: written to a given one, or with the node of its gradient.
#include "collective/api/backward.h"

#include "base/value.h"
#include "tensor/ops/op.h"

#include <gradwire/ops.h>
#include <string.h>

static gw_tensor *write_into(gw_scope *s, const char *what, gw_tensor *into, gw_tensor *result) {
    bool fits = into->dtype == result->dtype && into->dims == result->dims &&
                memcmp(into->sizes, result->sizes, into->dims * sizeof *into->sizes) == 0;
    if (fits) return gw_copy_(s, into, result);
    scope_fail(s, GW_INVALID, "%s: the result is %s %s, but the tensor .into is %s %s", what,
               gw_dtype_name((gw_dtype)result->dtype), shape_text(result).text,
               gw_dtype_name((gw_dtype)into->dtype), shape_text(into).text);
    return tensor_poison_of(s);
}

// An item whose gradient flows back to the root, also if this member does not need a gradient.
static gw_tensor *take_item(gw_scope *s, const char *what, const gw_list *both, recording *rec) {
    gw_tensor *out = gw_keep(s, gw_tensor_of(s, gw_list_get(s, both, 0)));
    if (!gw_ok(s)) return tensor_poison_of(s);
    gw_drop(s, both);
    if (rec->into) {
        backward_record_unused(s, &rec->request, out, true);
        scope_fail(s, GW_INVALID,
                   "%s: .into cannot be used if the input needs a gradient: gw_detach the input",
                   what);
    } else if (s->grad_enabled) {
        backward_record(s, &rec->request, out);
    } else {
        backward_record_unused(s, &rec->request, out, false);
    }
    return s->error ? tensor_poison_of(s) : out;
}

gw_tensor *request_take(gw_scope *s, const char *what, gw_future *f, recording *rec) {
    gw_value v = request_wait(s, f);
    if (gw_ok(s) && rec->request.operation == OPERATION_SCATTER && v.kind == GW_LIST)
        return take_item(s, what, gw_list_of(s, v), rec);
    if (gw_ok(s) && rec->into) {
        gw_tensor *result = gw_tensor_of(s, v);
        gw_tensor *into = write_into(s, what, rec->into, result);
        gw_drop(s, result);
        return into;
    }
    if (s->error || !rec->is_on) return gw_tensor_of(s, v);
    bool with_rows = request_gives_rows(rec->request.operation);
    const gw_list *both = with_rows ? gw_list_of(s, v) : NULL;
    gw_tensor *out = gw_tensor_of(s, both ? gw_list_get(s, both, 0) : v);
    if (both) rec->request.rows = gw_data(gw_tensor_of(s, gw_list_get(s, both, 1)));
    if (gw_ok(s)) backward_record(s, &rec->request, out);
    if (gw_ok(s) && both) gw_keep(s, out);
    if (gw_ok(s)) gw_drop(s, both);
    return s->error ? tensor_poison_of(s) : out;
}
