// Calls with several inputs or outputs: one way for all of them.
#include "nn/module.h"

#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const typed_call *const all[] = {
    &typed_lstm,          &typed_gru, &typed_rnn, &typed_embedding_bag, &typed_multihead_attention,
    &typed_encoder_layer,
};

const typed_call *typed_call_find(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return NULL;
}

static bool is_callable(gw_scope *s, const typed_call *c, const gw_module *m) {
    char where[64];
    snprintf(where, sizeof where, "gw_nn_%s_call", c->name);
    if (!module_is_usable(s, where, m)) return false;
    // The owner of a remote module checks which calls it has.
    if (m->remote || m->typed == c) return true;
    scope_fail(s, GW_INVALID, "%s: the module is \"%s\"", where, m->name);
    return false;
}

static bool any_poison(const typed_call *c, gw_tensor *const *in) {
    for (int i = 0; i < c->inputs; i++)
        if (in[i] == &tensor_poison) return true;
    return false;
}

static bool check_first(gw_scope *s, const typed_call *c, const gw_tensor *x) {
    if (!x) scope_fail(s, GW_INVALID, "gw_nn_%s_call: the first input is NULL", c->name);
    return gw_ok(s);
}

// Does what gw_module_call does for one input and one output.
static void run(gw_scope *s, gw_module *m, const typed_call *c, gw_tensor **in, int flags,
                gw_tensor **out) {
    in[0] = module_hooks_before(s, m, in[0]);
    if (!check_first(s, c, in[0]) || any_poison(c, in)) return;
    if (m->remote)
        m->remote->call(s, m, c, in, flags, out);
    else
        c->run(s, m, in, flags, out);
    out[0] = module_hooks_after(s, m, in[0], out[0]);
}

void module_call_typed(gw_scope *s, gw_module *m, const typed_call *c, gw_tensor *const *in,
                       int flags, gw_tensor **out) {
    gw_tensor *own[TYPED_INPUTS_MAX] = { 0 };
    memcpy(own, in, (size_t)c->inputs * sizeof *in);
    for (int i = 0; i < c->outputs; i++) out[i] = &tensor_poison;
    if (is_callable(s, c, m)) run(s, m, c, own, flags, out);
    for (int i = 0; !gw_ok(s) && i < c->outputs; i++) out[i] = &tensor_poison;
}
