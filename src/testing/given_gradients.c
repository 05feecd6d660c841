#include "testing/given_gradients.h"

#include "testing/testing.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

static gw_tensor *no_forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

void given_open(gw_scope *s, given_model *m, int count, const gw_shape *shapes) {
    m->module = gw_module_open(s, "given", no_forward, m);
    m->count = count;
    for (int i = 0; i < count; i++) {
        m->weights[i] = gw_requires_grad(s, gw_zeros_with(s, GW_F32, shapes[i]));
        gw_module_register_parameter(s, m->module, gw_format(s, "w%d", i), m->weights[i]);
    }
}

gw_tensor *given_loss(gw_scope *s, const given_model *m, gw_tensor *const *gradients) {
    gw_tensor *loss = NULL;
    for (int i = 0; i < m->count; i++) {
        gw_tensor *part = gw_sum(s, gw_mul(s, m->weights[i], gradients[i]));
        loss = loss ? gw_add(s, loss, part) : part;
    }
    return loss;
}

gw_tensor *given_numbers(gw_scope *s, gw_shape shape, uint64_t seed) {
    gw_scope *t = gw_scope_open(s);
    gw_seed(t, seed + 1);
    gw_tensor *x = gw_keep(s, gw_sub(t, gw_mul(t, gw_rand_with(t, GW_F32, shape), 2), 1));
    gw_scope_close_up(t);
    return x;
}

void given_compare(gw_scope *s, const char *what, gw_tensor *x, gw_tensor *expected, double most) {
    gw_tensor *off = gw_abs(s, gw_sub(s, x, expected));
    double worst = gw_item(s, gw_max(s, gw_reshape(s, off, -1)));
    if (!gw_ok(s)) fail_msg("%s: %s", what, gw_scope_error(s)->text);
    if (!(worst <= most)) fail_msg("%s is off by %g, not at most %g", what, worst, most);
}

sim_options given_network(uint64_t seed, int cut_per_million) {
    sim_options o = sim_varied(seed, cut_per_million);
    if (o.window_bytes < 10000) o.window_bytes = 10000;
    return o;
}
