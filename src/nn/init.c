#include "nn/init.h"

#include <gradwire/autograd.h>

void init_uniform(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
                  double bound) {
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    gw_tensor *x = gw_rand_shaped(t, dtype, shape);
    gw_module_parameter_add(t, m, name, gw_sub(t, gw_mul(t, x, 2 * bound), bound));
    gw_scope_merge(t);
}

void init_full(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
               double value) {
    gw_scope *t = gw_scope_open(s);
    gw_module_parameter_add(t, m, name, gw_full_shaped(t, dtype, gw_value_of(value), shape));
    gw_scope_merge(t);
}

void init_buffer(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
                 double value) {
    gw_scope *t = gw_scope_open(s);
    gw_module_buffer_add(t, m, name, gw_full_shaped(t, dtype, gw_value_of(value), shape));
    gw_scope_merge(t);
}
