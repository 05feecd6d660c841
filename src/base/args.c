#include "base/args.h"

#include "base/scope.h"

#include <gradwire/binding.h>

int gw_arg_count(const gw_args *a) {
    return a->count;
}

gw_values gw_args_all(const gw_args *a) {
    return (gw_values){ a->count, a->values };
}

gw_worker gw_arg_caller(const gw_args *a) {
    return a->caller;
}

const char *gw_arg_function(const gw_args *a) {
    return a->label;
}

gw_value gw_arg(gw_scope *s, const gw_args *a, int index) {
    if (s->error) return gw_none();
    if (index >= 0 && index < a->count) return a->values[index];
    scope_fail_of(s, a->label, GW_INVALID, "argument %d is missing: the call has %d arguments",
                  index, a->count);
    return gw_none();
}

gw_value arg_of(gw_scope *s, const gw_args *a, int index, gw_kind kind) {
    gw_value v = gw_arg(s, a, index);
    bool is_bit = v.kind == GW_INT && (v.as.integer | 1) == 1;
    bool fits =
        v.kind == kind || (kind == GW_FLOAT && v.kind == GW_INT) || (kind == GW_BOOL && is_bit);
    if (!s->error && !fits)
        scope_fail_of(s, a->label, GW_INVALID, "argument %d is %s, not %s", index,
                      gw_kind_name(v.kind), gw_kind_name(kind));
    return v;
}

bool gw_arg_bool(gw_scope *s, const gw_args *a, int index) {
    return gw_bool_of(s, arg_of(s, a, index, GW_BOOL));
}
int64_t gw_arg_int(gw_scope *s, const gw_args *a, int index) {
    return gw_int_of(s, arg_of(s, a, index, GW_INT));
}
double gw_arg_float(gw_scope *s, const gw_args *a, int index) {
    return gw_float_of(s, arg_of(s, a, index, GW_FLOAT));
}
const char *gw_arg_string(gw_scope *s, const gw_args *a, int index) {
    return gw_string_of(s, arg_of(s, a, index, GW_STRING));
}
gw_list *gw_arg_list(gw_scope *s, const gw_args *a, int index) {
    return gw_list_of(s, arg_of(s, a, index, GW_LIST));
}
gw_map *gw_arg_map(gw_scope *s, const gw_args *a, int index) {
    return gw_map_of(s, arg_of(s, a, index, GW_MAP));
}
