// Layers as any peer makes and calls them: by name, with any arguments and options, then with any
// inputs, gradients of outputs, and loaded states. All of it ends in values or in one error.
#include "distributed/nn/layer_options.h"
#include "distributed/nn/module_object.h"

#include "base/scope.h"
#include "testing/fuzz_input.h"
#include <gradwire/autograd.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGUMENTS_MAX = 4, DEPTH_MAX = 3, CALLS_MAX = 6, INPUTS_MAX = 8 };

// ---- Arguments and options of a layer --------------------------------------------------------------------
// Mostly sizes that the tensors of fuzz_take_tensor have.
static gw_value take_size(fuzz_input *in) {
    return fuzz_take(in, 8) ? gw_value_of_int(1 + fuzz_take(in, 4)) : fuzz_take_value(in, FUZZ_INT);
}

static gw_value take_pair(fuzz_input *in) {
    if (fuzz_take(in, 2)) return take_size(in);
    gw_list *list = gw_list_open(in->scope);
    for (unsigned i = 0, count = 1 + fuzz_take(in, 3); i < count; i++)
        gw_list_add_with(in->scope, list, take_size(in));
    return gw_value_of_list(list);
}

static gw_value take_word(fuzz_input *in, const layer_option *o) {
    unsigned count = 0;
    while (o->words[count]) count++;
    return gw_value_of_string(o->words[fuzz_take(in, count)]);
}

static gw_value take_option(fuzz_input *in, const layer_option *o) {
    if (!fuzz_take(in, 16)) return fuzz_take_value(in, fuzz_take(in, FUZZ_KIND_COUNT));
    switch (o->kind) {
    case LAYER_BOOL: return fuzz_take_value(in, FUZZ_BOOL);
    case LAYER_INT:
    case LAYER_SMALL: return take_size(in);
    case LAYER_FLOAT: return fuzz_take_value(in, FUZZ_REAL);
    case LAYER_PAIR: return take_pair(in);
    case LAYER_DTYPE: return fuzz_take_value(in, FUZZ_DTYPE_NAME);
    case LAYER_WORD: return take_word(in, o);
    }
    return gw_none();
}

static gw_value take_options(fuzz_input *in, const layer_option *options) {
    gw_map *map = gw_map_open(in->scope);
    int known = 0;
    while (options && options[known].name) known++;
    for (unsigned i = 0, count = fuzz_take(in, 6); known && i < count; i++) {
        const layer_option *o = &options[fuzz_take(in, (unsigned)known)];
        gw_map_put_with(in->scope, map, o->name, take_option(in, o));
    }
    if (!fuzz_take(in, 16)) gw_map_put(in->scope, map, "no_such_option", 1);
    return gw_value_of_map(map);
}

static const layer *take_layer(fuzz_input *in) {
    unsigned count = 0;
    while (layer_table[count].name) count++;
    return &layer_table[fuzz_take(in, count)];
}

// ["linear", 4, 3, {"bias": false}]
static gw_value take_listed(fuzz_input *in, int depth);

static int take_arguments(fuzz_input *in, const layer *l, int depth, gw_value *args) {
    int count = l->count >= 0 ? l->count : (int)fuzz_take(in, ARGUMENTS_MAX);
    for (int i = 0; i < count; i++)
        args[i] = !fuzz_take(in, 16) ? fuzz_take_value(in, fuzz_take(in, FUZZ_KIND_COUNT))
                  : l->count < 0     ? take_listed(in, depth + 1)
                                     : take_size(in);
    if (l->options && fuzz_take(in, 4)) args[count++] = take_options(in, l->options);
    return count - (count > 0 && !fuzz_take(in, 16));
}

static gw_value take_listed(fuzz_input *in, int depth) {
    gw_list *list = gw_list_open(in->scope);
    const layer *l = take_layer(in);
    gw_value args[ARGUMENTS_MAX];
    if (depth >= DEPTH_MAX) return gw_value_of_list(list);
    gw_list_add(in->scope, list, l->name);
    for (int i = 0, count = take_arguments(in, l, depth, args); i < count; i++)
        gw_list_add_with(in->scope, list, args[i]);
    return gw_value_of_list(list);
}

// ---- Inputs of its methods ----------------------------------------------------------------------
static gw_value take_inputs(fuzz_input *in) {
    gw_list *list = gw_list_open(in->scope);
    for (unsigned i = 0, count = fuzz_take(in, INPUTS_MAX); i < count; i++) {
        static const fuzz_kind kinds[] = { FUZZ_TENSOR, FUZZ_TENSOR, FUZZ_NONE, FUZZ_BOOL };
        gw_list_add_with(in->scope, list, fuzz_take_value(in, kinds[fuzz_take(in, 4)]));
    }
    return gw_value_of_list(list);
}

static gw_value take_call_name(fuzz_input *in) {
    static const char *const names[] = { "",
                                         "lstm",
                                         "gru",
                                         "rnn",
                                         "embedding_bag",
                                         "multihead_attention",
                                         "transformer_encoder_layer",
                                         "no_such_call" };
    return gw_value_of_string(names[fuzz_take(in, sizeof names / sizeof *names)]);
}

// The state that the module has, but for one tensor.
static gw_value take_state(fuzz_input *in, gw_scope *s, gw_module *m) {
    gw_map *state = gw_module_state_dict(s, m);
    int count = gw_ok(s) ? gw_map_count(state) : 0;
    int changed = (int)fuzz_take(in, (unsigned)count + 2);
    if (changed <= count) {
        const char *name = changed < count ? gw_map_key(s, state, changed) : "another";
        gw_map_put_with(s, state, name, fuzz_take_value(in, fuzz_take(in, FUZZ_KIND_COUNT)));
    }
    return gw_value_of_map(state);
}

static int take_call(fuzz_input *in, gw_scope *s, const function *f, gw_module_object *self,
                     gw_value *args) {
    if (!strcmp(f->name, "forward")) {
        args[0] = fuzz_take_tensor(in);
        return 1;
    }
    if (!strcmp(f->name, "call")) {
        args[0] = take_call_name(in);
        args[1] = take_inputs(in);
        args[2] = fuzz_take(in, 3) ? gw_none() : fuzz_take_value(in, FUZZ_INTS);
        return 3;
    }
    if (!strcmp(f->name, "train")) {
        args[0] = fuzz_take_value(in, FUZZ_BOOL);
        return 1;
    }
    if (!strcmp(f->name, "load")) {
        args[0] = take_state(in, s, self->module);
        args[1] = fuzz_take_value(in, FUZZ_BOOL);
        return 2;
    }
    return 0;
}

// ---- Serving ------------------------------------------------------------------------------------
static void run_back(gw_scope *s, gw_value v) {
    if (v.kind == GW_LIST) v = gw_list_count(v.as.list) ? gw_list_get(s, v.as.list, 0) : gw_none();
    if (v.kind != GW_TENSOR || !gw_needs_grad(v.as.tensor)) return;
    gw_backward(s, v.as.tensor, .gradient = gw_ones_like(s, v.as.tensor));
}

static void close_scope(gw_scope *s) {
    if (!gw_ok(s) && !gw_scope_error(s)->text[0]) abort();
    gw_error error = gw_scope_close(s);
    (void)error;
}

// Serves a received call of a method, as a worker does.
static void serve(fuzz_input *in, const class *c, gw_module_object *self) {
    gw_scope *s = gw_scope_open(NULL);
    s->tensor_bytes_max = FUZZ_TENSOR_BYTES_MAX;
    fuzz_input inputs = { in->at, in->end, s };
    const function *f = &c->fixed_methods[fuzz_take(&inputs, (unsigned)c->fixed_count)];
    gw_value args[3];
    int count = take_call(&inputs, s, f, self, args);
    in->at = inputs.at;
    gw_error error;
    // References need an agent.
    bool is_served = strcmp(f->name, "parameters") != 0 && gw_ok(s) &&
                     signature_check(&f->signature, count, args, &error) == GW_OK;
    if (is_served) {
        gw_value v = f->method(s, self, &(gw_args){ f->name, count, args, { 0 } });
        if (gw_ok(s)) run_back(s, v);
    }
    close_scope(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gw_scope *s = gw_scope_open(NULL), *own = gw_scope_open(NULL);
    gw_seed(own, 1);
    s->tensor_bytes_max = FUZZ_TENSOR_BYTES_MAX;
    own->tensor_bytes_max = FUZZ_TENSOR_BYTES_MAX;
    fuzz_input in = { data, data + size, s };
    const layer *l = take_layer(&in);
    gw_value args[ARGUMENTS_MAX];
    int count = take_arguments(&in, l, 0, args);
    gw_module_object self = { 0 };
    gw_args made_of = { l->name, count, args, { 0 } };
    if (gw_ok(s)) gw_module_object_open(own, &self, l->open(own, &made_of));
    for (int i = 0; i < CALLS_MAX && gw_ok(s) && gw_ok(own) && in.at < in.end; i++)
        serve(&in, layer_functions[l - layer_table].class, &self);
    close_scope(own);
    close_scope(s);
    return 0;
}
