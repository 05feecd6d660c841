// Shared by the files of this room: modules, and the table of a remote module.
#ifndef NN_MODULE_H
#define NN_MODULE_H

#include "base/args.h"
#include "base/handle.h"
#include "base/hook_list.h"
#include "base/map.h"
#include "base/scope.h"
#include <gradwire/nn.h>

// A parameter, a buffer or another module, under its name.
typedef struct module_part {
    char *name;
    union {
        gw_handle *handle;
        gw_tensor *parameter;
        gw_tensor *buffer;
        gw_module *child;
    } is;
} module_part;

typedef struct module_parts {
    module_part *items;
    int count;
    uint32_t capacity;
    map indices;  // by name: place + 1; of more than a few
} module_parts;

// A layer that takes or gives several values, and its short form: gw_nn_lstm_call and so on.
typedef struct typed_call {
    const char *name;     // "lstm" of gw_nn_lstm_call; part of the protocol
    int inputs, outputs;  // at most; all but the first may be none, of both
    gw_module_forward_values *forward;
} typed_call;

extern const typed_call typed_lstm, typed_gru, typed_rnn, typed_embedding_bag,
    typed_multihead_attention, typed_encoder_layer;

const typed_call *typed_call_find(const char *name);  // NULL if there is none

// Calls |m| with its hooks; |m| may be remote. With a |c| (which may be NULL) fails unless |m| is
// of that layer. None if |s| has failed.
gw_value module_call_values(gw_scope *s, gw_module *m, const typed_call *c, gw_values in);

// The same, with the outputs of |c| in |out|: NULL for one that is none, all poison on failure.
void module_call_typed(gw_scope *s, gw_module *m, const typed_call *c, const gw_value *in,
                       gw_tensor **out);

// Apply the hooks of |m| to the first of |*in|, which then is a copy in |s|, and to the first output
// that |v| has. Fail |s| if it is no tensor.
gw_tensor *values_hooks_before(gw_scope *s, gw_module *m, gw_values *in);
gw_value values_hooks_after(gw_scope *s, gw_module *m, gw_tensor *x, gw_value v);

// The functions of a module that lives on another worker; the distributed room fills the table. |m|
// has no parts here; its forward makes the call.
typedef struct module_remote {
    void (*destroy)(gw_module *m);
    void (*train)(gw_scope *s, gw_module *m, bool training);
    gw_map *(*parameters)(gw_scope *s, gw_module *m);  // a reference to each, by name
    gw_map *(*shapes)(gw_scope *s, gw_module *m);      // "f32 3x4" of each, by name, buffers too
    gw_map *(*state)(gw_scope *s, gw_module *m);       // copies of them
    void (*load)(gw_scope *s, gw_module *m, gw_map *state);  // of the names and shapes in |shapes|
    gw_value (*call)(gw_scope *s, gw_module *m, const typed_call *c, gw_values in);
} module_remote;

// The tensors of one kind of a module and its parts, by number.
typedef struct module_numbers {
    uint64_t change;  // of the parts of modules, at which it was made
    int count;
    gw_tensor *tensors[];  // borrowed
} module_numbers;

struct gw_module {
    gw_handle handle;
    const module_remote *remote;  // NULL: it is on this worker
    hook_list hooks;
    char *name;
    gw_module_forward *forward;                // at least one of the two
    gw_module_forward_values *forward_values;  // for gw_module_call only if there is no other
    const typed_call *typed;                   // NULL: no layer of several values
    void *state;                               // the user's
    double number;                             // a layer's only setting: p, negative_slope, dim
    void *settings;   // a layer's, if it has more of them: freed with the module
    gw_handle *kept;  // one count, given back with the module: used by |settings|
    bool training;
    int depth;                                   // of modules around it, along the longest way
    module_parts parameters, buffers, children;  // one count on each
    module_numbers *numbers[2];                  // of parameters, of buffers (module_numbers.c)
    bool is_numbered;                            // it is in the numbers of some module
    // A call of the module, or of one around it, has failed before its forward. NULL: nothing happens
    void (*refused)(gw_scope *s, gw_module *m);
};

// A batch norm whose batch is larger than its input: replaces the operator while it trains.
// |context| is counted by the module. False for other modules.
typedef gw_tensor *batch_normalize(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                                   gw_batch_norm_options options, gw_handle *context);
// In place of it: a forward has failed before.
typedef void batch_refuse(gw_scope *s, gw_handle *context);
bool batch_norm_set_normalize(gw_module *m, batch_normalize *normalize, batch_refuse *refuse,
                              gw_handle *context);
bool module_is_batch_norm(const gw_module *m);

extern gw_module module_poison;  // returned by failed constructors

// Modules inside each other, so that walks over them take little stack.
enum { MODULE_DEPTH_MAX = 128 };

// The part whose name is the first |size| characters of |name|; NULL if there is none.
module_part *module_find_part(const module_parts *parts, const char *name, size_t size);

// Fails |s| for NULL and for the poison of a failed constructor, which may have failed another
// scope.
bool module_is_usable(gw_scope *s, const char *where, const gw_module *m);

// A module without parts, owned by |s|, or poison.
gw_module *module_new(gw_scope *s, const char *name, gw_module_forward *forward);

// The same with a copy of |settings|, |size| bytes; and of a layer of several values.
gw_module *module_new_with(gw_scope *s, const char *name, gw_module_forward *forward,
                           const void *settings, size_t size);
gw_module *module_new_typed(gw_scope *s, const typed_call *c, const void *settings, size_t size);

// Whether |m| is a table whose gradients are sparse by rows.
bool embedding_is_sparse(const gw_module *m);
bool embedding_bag_is_sparse(const gw_module *m);  // of one that is an embedding_bag

// A forward pre hook that is called also in a scope that has failed, by a call of |m|, or of a module around it whose
// forward does not run. Then other workers may wait for a call of theirs.
int module_register_hook_always(gw_scope *s, gw_module *m, gw_module_forward_pre_hook *hook,
                                void *context);
// A call of |m|, which may be NULL or poison, has failed before its hooks; or with them. |s| has failed.
void module_refuse_call(gw_scope *s, gw_module *m);
void module_refuse_forward(gw_scope *s, gw_module *m);

// Apply the hooks of |m| to its input, and to its output.
gw_tensor *module_hooks_before(gw_scope *s, gw_module *m, gw_tensor *x);
gw_tensor *module_hooks_after(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y);
bool module_hooks_any_after(const gw_module *m);

// Calls |visit| for the tensors of |kinds| (or'ed) of |m| and its parts until it returns false: a
// module's own parameters, then its own buffers, then those of its parts, which is the order of
// PyTorch's state_dict. Returns whether it never did.
typedef enum module_tensors {
    MODULE_PARAMETERS = 1,
    MODULE_BUFFERS = 2,
    MODULE_STATE = MODULE_PARAMETERS | MODULE_BUFFERS
} module_tensors;

// |where| is the way there, innermost part first.
typedef struct module_path {
    const struct module_path *outer;  // NULL at the module that the walk started from
    const char *name;
} module_path;
typedef bool module_visit(void *context, const module_path *at, gw_tensor *x);
bool module_each_tensor(const gw_module *m, module_tensors kinds, const module_path *where,
                        module_visit *visit, void *context);

// The count of parameters, or of buffers, of |m| and its parts, and the one of |index|, NULL if it is out of range;
// |out| may be NULL. False without memory, or while another thread is here: then the caller walks.
bool module_numbers_get(gw_module *m, bool of_buffers, int index, int *out_count, gw_tensor **out);

// How often a module that is in a table of numbers has got another part.
extern _Atomic uint64_t module_changes;

// Calls |visit| for |m|, then for its parts in order. Remote ones are visited too, without tensors.
// |where| is NULL at |m|.
bool module_each(gw_module *m, const module_path *where,
                 bool (*visit)(void *context, const module_path *where, gw_module *m),
                 void *context);

// "encoder.0.weight" in the text of |s|.
const char *module_path_text(gw_scope *s, const module_path *at);

// The tensors of |m|, and of its remote parts by name: state.c.
typedef struct state_slot {
    const char *name;   // "encoder.0.weight"
    const char *shape;  // "f32 3x4"
    gw_tensor *here;    // NULL: it belongs to |remote|
    gw_module *remote;
    const char *inner;  // its name in |remote|
} state_slot;

typedef struct state_slots {
    gw_scope *scope;  // of its texts
    state_slot *items;
    int count;
    uint32_t capacity;
} state_slots;

bool state_slots_collect(state_slots *all, gw_scope *s, gw_module *m);  // false with |s| failed
void state_slots_fini(state_slots *all);

#endif
