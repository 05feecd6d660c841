// Remote modules: layers and models on another worker.
//
// A remote module is a gw_module. A program uses it like a local module:
//
//     gw_module *emb  = gw_module_remote(root, "ps", "gw.nn.linear", 512, 64);      // any layer of gradwire/nn.h
//     gw_module *dec  = gw_module_remote(root, "ps", "decoder", 64, 512);           // a class of the program (below)
//     gw_module *lstm = gw_nn_lstm(root, 64, 64);        // a local module
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, emb, lstm, dec), .lr = 0.1);
//     gw_tensor *y = gw_module_call(s, dec, gw_module_call(s, emb, x));             // two calls to ps
//     gw_module_eval(s, dec);
//     gw_checkpoint_save(s, "dec.safetensors", gw_module_state_dict(s, dec));
//
// Calls with several arguments or results also work, such as gw_module_call_value and gw_nn_lstm_call with states. If
// the class of a program makes an LSTM, gw_nn_lstm_call also works for its objects. Gradients flow through all
// arguments and results.
//
//     gw_lstm_result r = gw_nn_lstm_call(s, there, x, .h0 = h0, .c0 = c0);
//
// For a remote module, gw_parameters and gw_module_named_parameters return references to its parameters.
// gw_module_state_dict copies the values of the parameters to this worker, and gw_module_load_state_dict sends new
// values to the other worker. Hooks run on this worker, before and after the call. A remote module may be a part of a
// local module, such as a gw_nn_sequential. gw_module_child and gw_module_parameter_get do not find parts of the module
// on the other worker; the error states this.
//
// A class of the program is a function that makes a module from its arguments. The class may have methods. Workers call
// these methods through gw_module_rref:
//
//     static gw_module *decoder_open(gw_scope *own, const gw_args *a) {
//         gw_module *last = gw_nn_linear(own, gw_arg_int(own, a, 0), gw_arg_int(own, a, 1));
//         return gw_nn_sequential(own, gw_nn_dropout(own, 0.5), last);
//     }
//     GW_MODULE(decoder, decoder_open, "int, int");
//
//     GW_METHOD(decoder, best, GW_POOL, "tensor") {         // parameters: gw_scope *s, decoder *self, const gw_args *a
//         gw_tensor *y = gw_module_call(s, self->module, gw_arg_tensor(s, a, 0));
//         return gw_value_of(gw_argmax(s, y, .dim = -1));
//     }
//
// Each layer of the library has a class, such as "gw.nn.linear" for gw_nn_linear. The arguments of the class are those
// of the C function. The last argument may be a map of options by their names in C: {"bias": false, "dtype": "f64"}.
// The option "mode" of "gw.nn.embedding_bag" is "mean", "sum" or "max". The arguments of "gw.nn.sequential" are lists,
// one for each layer: ["linear", 4, 3].
//
// Errors: those of calls (gradwire/rpc.h). An error names the worker, the class and the failed operation: "ps:
// decoder.forward: gw.linear: ...". If making a module fails, the first use of the module reports the error.
// Ownership: a module belongs to the scope that made it. The object on the other worker lives as long as a reference to
// it exists.
// Threads: one thread at a time, as for the scope. Several workers may call the object; it runs their calls one at a
// time.
#ifndef GRADWIRE_MODULE_REMOTE_H
#define GRADWIRE_MODULE_REMOTE_H

#include <gradwire/nn.h>
#include <gradwire/ref.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Making and sharing -------------------------------------------------------------------------

/// Makes a module on the worker |to|, of a class that |to| has registered: gw_module_remote(s, to, class, args...).
/// Does not block.
///
/// to: a name, a rank, or a gw_worker.
/// class_name: "gw.nn.linear", or a class of GW_MODULE.
/// Returns: the module.
/// Source: torch.distributed.nn.RemoteModule.
GW_API gw_module *gw_module_remote(gw_scope *s, gw_target to, const char *class_name,
                                   gw_values args, gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_module_remote_with);
#define gw_module_remote(s, to, ...) GW_CALL(gw_module_remote, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_module_remote) gw_module_remote_with;

/// Makes a remote module from a reference, so that several workers can use one module. The reference is the result of
/// gw_module_rref on this worker or another worker.
/// Returns: the module.
GW_API gw_module *gw_module_from_rref(gw_scope *s, gw_rref *rref);

/// Returns the reference to the object of a remote module. The reference is borrowed from |m|.
/// Errors: INVALID for a local module.
GW_API gw_rref *gw_module_rref(gw_scope *s, const gw_module *m);

// ---- Calling ------------------------------------------------------------------------------------

/// Starts gw_module_call and does not block. If |m| is a local module, it computes its output before the function
/// returns. If |m| is remote, hooks of the output run when the output has arrived. They run in a new scope, on any
/// thread, and must not block.
/// Returns: a future of the output.
GW_API gw_future *gw_module_call_async(gw_scope *s, gw_module *m, gw_tensor *x);

/// Starts gw_module_call_value and does not block: gw_module_call_value_async(s, m, x, ...).
/// Returns: a future of the output.
GW_API gw_future *gw_module_call_value_async(gw_scope *s, gw_module *m, gw_values in)
    GW_CALLS(gw_module_call_value_async_with);
#define gw_module_call_value_async(s, ...)                                                         \
    GW_MODULE_VALUES(gw_module_call_value_async, s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_module_call_value_async) gw_module_call_value_async_with;

// ---- Classes ------------------------------------------------------------------------------------

/// The type of |self| in methods of a class of GW_MODULE.
typedef struct gw_module_object {
    gw_scope *own;
    gw_module *module;

    // used by the library
    gw_map *names;
    gw_list *references;
    uint64_t parameter_bytes;
} gw_module_object;

/// Registers the class |name|, whose objects are modules, and defines the type |name| for GW_METHOD: GW_MODULE(name,
/// open) or GW_MODULE(name, open, signature), followed by a semicolon.
///
/// open: gw_module *open(gw_scope *own, const gw_args *a).
#define GW_MODULE(...) GW_MODULE_FORM(__VA_ARGS__)

/// Adds a class of modules to a registry.
/// Errors: as gw_registry_add_class.
GW_API void gw_registry_add_module(gw_scope *s, gw_registry *r, const char *name,
                                   const char *signature,
                                   void (*open)(gw_scope *own, void *self, const gw_args *a));

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/module_remote.h>
#endif
