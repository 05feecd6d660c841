// Collectives of tensors that are sparse by rows: their checks and the requests of their runs.
#include "collective/api/requests.h"

#include "base/value.h"
#include "collective/plan/plan.h"

#include <string.h>

static bool check_rows(gw_scope *s, const char *what, content c, gw_tensor *x, gw_reduce_op op,
                       gw_collective_options o) {
    bool sums = c == CONTENT_ROWS_SUMMED;
    if (!tensor_is_given(s, what, x)) return false;
    if (x->values->device != GW_CPU)
        scope_fail(s, GW_UNSUPPORTED, "%s: the tensor is not on the CPU", what);
    else if (sums && op != GW_SUM && op != GW_AVG)
        scope_fail(s, GW_INVALID,
                   "%s: tensors that are sparse by rows can be combined by GW_SUM and GW_AVG only",
                   what);
    else if (sums)
        request_check_factor(s, what, op, (gw_dtype)x->dtype, o.factor);
    if (gw_ok(s) && o.into)
        scope_fail(s, GW_INVALID, "%s: .into cannot be used for a tensor that is sparse by rows",
                   what);
    return gw_ok(s);
}

// Each member's input is sent to all, each row once; each receiver makes the sum.
gw_future *request_rows(gw_scope *s, gw_group *g, const char *what, content c, gw_tensor *x,
                        gw_reduce_op op, gw_collective_options options, recording *rec) {
    if (!check_rows(s, what, c, x, op, options)) return request_refuse(s, g, options.key);
    run_request r = request_of(OPERATION_ALL_GATHER, c, -1, options);
    r.own_value = gw_value_of_tensor(gw_coalesce(s, x));
    r.signature.dtype = x->dtype;
    r.signature.dims = x->dims;
    memcpy(r.signature.sizes, x->sizes, (size_t)x->dims * sizeof x->sizes[0]);
    if (c == CONTENT_ROWS_SUMMED) {
        r.signature.op = (uint8_t)op;
        r.signature.factor = options.factor;
    }
    return gw_ok(s) ? request_start(s, g, what, r, rec) : request_refuse(s, g, options.key);
}
