// The functions of a worker: functions and classes by name, operators as "gw.<name>".
//
// Ownership: a registry is a handle; the agent that serves it holds one count and freezes it.
// Threads: filled by one thread, read by all once frozen.
#ifndef CALL_REGISTRY_H
#define CALL_REGISTRY_H

#include "agent/state/service.h"
#include "base/handle.h"
#include "base/map.h"
#include "base/nearest.h"
#include "tensor/ops/op.h"
#include <gradwire/function.h>

// Which kinds a function takes, by parameter. All zero: anything.
typedef struct signature {
    bool given;
    bool rest;  // any further arguments
    uint16_t required, count;
    uint16_t *kinds;  // a bit for each gw_kind
} signature;

// Of a function of the library: the kinds of its parameters, as bits.
#define TAKES(...)                                                                                 \
    {                                                                                              \
        .given = true, .required = sizeof((uint16_t[]){ 0, __VA_ARGS__ }) / sizeof(uint16_t) - 1,  \
        .count = sizeof((uint16_t[]){ 0, __VA_ARGS__ }) / sizeof(uint16_t) - 1,                    \
        .kinds = (uint16_t[]){ 0, __VA_ARGS__ } + 1                                                \
    }
enum { TAKES_ANY = UINT16_MAX };

typedef struct class class;

// Exactly one of |body|, |method| and |class| is set.
typedef struct function {
    char *name;
    gw_placement where;
    signature signature;
    gw_function_body body;
    gw_method_body method;
    class *class;
    char *callers;  // a pattern of names; NULL: all may call it
    // Of a method of the library: whether this call of it runs inline, whatever |where| is.
    // Without the object's turn.
    bool (*is_inline)(const void *self, uint64_t request_bytes);
    bool starts_unserved;  // of the library: its calls start before gw_rpc_serve, too (FLOW-5)
} function;

struct class {
    char *name;
    gw_class_options options;
    map methods;                    // of function
    const function *fixed_methods;  // of a class of the library
    int fixed_count;
};

struct gw_registry {
    gw_handle handle;
    bool frozen;
    map functions;  // of function, classes among them
};

// The process's present registry, of all calls of gw_register. One count.
gw_status registry_open_process(gw_registry **out, gw_error *error);

const function *registry_find(const gw_registry *r, const char *name);
bool function_allows(const function *f, const char *caller);
const function *class_find_method(const class *c, const char *name);

// The functions that every worker serves without registration: names with "gw." in the tables of
// |services|, which ends with NULL.
const function *library_find(const service *const *services, const char *name);

// Offers the functions of a worker, and its classes if |classes|; the methods of a class.
void registry_offer(const gw_registry *r, const service *const *services, bool classes, nearest *n);
void class_offer_methods(const class *c, nearest *n);

// The operator behind "gw.<name>"; NULL if |name| is none.
const op *registry_find_operator(const char *name);

// signature.c: "tensor, int?, any, ...". INVALID names the word that is no kind.
gw_status signature_parse(const char *text, signature *out, gw_error *error);
void signature_fini(signature *s);
// INVALID with one error text: "takes 2 arguments, not 3", "argument 1 is a string, not a tensor".
gw_status signature_check(const signature *s, int count, const gw_value *args, gw_error *error);

#endif
