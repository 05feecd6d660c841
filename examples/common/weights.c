#include "weights.h"

static gw_tensor *tensor_at(gw_scope *s, gw_list *list, int index) {
    return gw_tensor_of(s, gw_list_get(s, list, index));
}

static bool is_like(gw_scope *s, gw_module *model, gw_list *list) {
    int count = gw_module_parameter_count(model);
    if (gw_ok(s) && gw_list_count(list) != count)
        gw_fail(s, GW_INVALID, "%d tensors for %d parameters", gw_list_count(list), count);
    for (int i = 0; i < count && gw_ok(s); i++) {
        gw_tensor *p = gw_module_parameter_at(s, model, i), *x = tensor_at(s, list, i);
        bool same = gw_dims(p) == gw_dims(x);
        for (int d = 0; d < gw_dims(p) && same; d++) same = gw_size(p, d) == gw_size(x, d);
        if (gw_ok(s) && !same)
            gw_fail(s, GW_INVALID, "%s is of another shape", gw_module_parameter_name(s, model, i));
    }
    return gw_ok(s);
}

gw_list *weights_of(gw_scope *s, gw_module *model) {
    gw_list *weights = gw_list_open(s);
    for (int i = 0; i < gw_module_parameter_count(model); i++)
        gw_list_add(s, weights, gw_detach(s, gw_module_parameter_at(s, model, i)));
    return weights;
}

double weights_sum(gw_scope *s, gw_module *model) {
    double sum = 0;
    for (int i = 0; i < gw_module_parameter_count(model); i++)
        sum += gw_item(s, gw_sum(s, gw_module_parameter_at(s, model, i)));
    return sum;
}

uint64_t weights_hash(gw_scope *s, gw_module *model) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < gw_module_parameter_count(model); i++) {
        gw_tensor *w = gw_module_parameter_at(s, model, i);
        const unsigned char *at = gw_data(w),
                            *end = at + gw_numel(w) * gw_dtype_size(gw_dtype_of(w));
        while (at < end) hash = (hash ^ *at++) * UINT64_C(1099511628211);
    }
    return hash;
}

void weights_load(gw_scope *s, gw_module *model, gw_list *weights) {
    if (!is_like(s, model, weights)) return;
    gw_scope *plain = gw_scope_open(s);
    gw_no_grad(plain);
    for (int i = 0; i < gw_list_count(weights); i++)
        gw_copy_(plain, gw_module_parameter_at(plain, model, i), tensor_at(plain, weights, i));
    gw_scope_close_up(plain);
}

gw_list *gradients_of(gw_scope *s, gw_module *model) {
    gw_list *gradients = gw_list_open(s);
    for (int i = 0; i < gw_module_parameter_count(model); i++)
        gw_list_add(s, gradients, gw_grad(s, gw_module_parameter_at(s, model, i)));
    return gradients;
}

void gradients_add(gw_scope *s, gw_module *model, gw_list *gradients) {
    if (!is_like(s, model, gradients)) return;
    for (int i = 0; i < gw_list_count(gradients); i++)
        gw_backward(s, gw_module_parameter_at(s, model, i), .gradient = tensor_at(s, gradients, i));
}
