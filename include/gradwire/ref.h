// Remote references.
//
// A reference names a value that lives on another worker, its owner. The owner keeps the value for
// as long as any worker holds a reference to it. References travel as arguments and results, also
// before the value behind them exists.
//
//     gw_rref   *w    = gw_remote(s, "ps", "make_weights", 128, 64);     // returns at once
//     gw_tensor *here = gw_to_here(s, w);                                // waits, copies
//     gw_rref   *c    = gw_remote(s, "ps", "counter", 3);                // an object
//     int64_t    n    = gw_int_of(s, gw_rpc_sync(s, c, "add", 4));       // a method of it
//
// A chain over four workers, in which no value passes through the caller and no thread waits for
// another:
//
//     gw_rref *ra = gw_remote(s, "w1", "load", 1), *rb = gw_remote(s, "w2", "load", 2);
//     gw_rref *rc = gw_remote(s, "w3", "gw.add", ra, rb);                     // operators take what is behind a reference
//     gw_rref *rd = gw_remote(s, "w4", "finish", gw_by_value(s, rc), rb);     // "tensor, rref": one as value, one as it is
//
// From PyTorch: rref.to_here() is gw_to_here(s, ref); rref.rpc_sync().f(x) is gw_rpc_sync(s, ref,
// "f", x), rref.rpc_async().f(x) gw_rpc_async(s, ref, "f", x), and rref.remote().f(x) gw_remote(s,
// ref, "f", x); RRef(value) is gw_rref_open(s, value); owner(), owner_name(), is_owner(),
// confirmed_by_owner() and local_value() are gw_rref_owner(s, ref), its .name,
// gw_rref_is_owner(ref), gw_rref_is_confirmed(ref) and gw_rref_local_value(s, ref). None of the
// method calls waits for the object to be built: a call of a method waits on the owner.
//
// An error in making the value is delivered to every use of the reference, those that wait already
// and those that come later. When a worker is lost, what it held is given back for it, and
// references to its values fail with REF_LOST, which says why the owner is gone. Cycles of
// references over workers are not collected: they stay until shutdown, whose log names them.
// Ownership: a reference belongs to the scope that made it; closing the scope gives it back.
// Threads: as its scope.
#ifndef GRADWIRE_REF_H
#define GRADWIRE_REF_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- The value ----------------------------------------------------------------------------------
// Copies the value to this worker, waiting at most the scope's deadline (60 s by default). The
// first is for tensors. On the owner it is the value itself, not a copy.
// Fails with what failed in making the value, REF_LOST if the owner is gone (DISCONNECTED if it
// goes meanwhile), TIMEOUT, INVALID for an object, WRONG_STATE after shutdown.
GW_API gw_tensor *gw_to_here(gw_scope *s, gw_rref *ref);
GW_API gw_value gw_to_here_value(gw_scope *s, gw_rref *ref);

// The same without waiting: the value is on its way when this returns.
GW_API gw_future *gw_to_here_async(gw_scope *s, gw_rref *ref);

// The value behind |ref| as an argument: the worker that is called gets it straight from the owner,
// once it is made, and starts when it has come. Nothing waits for it here, and |ref| may be given
// back as soon as the call has been made. The call fails, without having run, with what failed in
// making the value, REF_LOST if the owner is gone, INVALID for an object. In arguments of operators
// ("gw.add") every reference stands for its value.
// It is a future like others, too: waited for here, it copies the value to here, from that moment
// on.
GW_API gw_future *gw_by_value(gw_scope *s, gw_rref *ref);

// gw_rref_open(s, x): a reference to a value of this worker. Costs nothing until it is sent away.
#define gw_rref_open(s, x) gw_rref_open_with((s), gw_value_of(x), GW_ORIGIN)
GW_API gw_rref *gw_rref_open_with(gw_scope *s, gw_value v, const char *origin);

// On the owner only (else INVALID naming both workers). gw_local(s, ref, type) enters the object
// behind |ref|, of the class |type|: returns its struct, a type *, and holds its turn until |s|
// closes; while a call or wait of |s| or of a scope inside it waits, other turns may run. NULL with
// |s| failed: INVALID if the object is of another class or |s| outlives the call it is used in,
// TIMEOUT if its turn did not come.
#define gw_local(s, ref, type) ((type *)gw_local_with((s), (ref), #type))
GW_API void *gw_local_with(gw_scope *s, gw_rref *ref, const char *class_name);
// The value itself, not a copy; waits until it is made.
GW_API gw_value gw_rref_local_value(gw_scope *s, gw_rref *ref);

// ---- Names --------------------------------------------------------------------------------------
// A worker names a value of its own, most often an object, and others find it:
//
//     gw_rref_set_name(root, gw_remote(root, gw_rpc_self(root), "counter", 0), "hits");      // on "ps"
//     gw_rpc_sync(s, gw_named(s, "ps", "hits"), "add", 1);                                     // elsewhere
//
// The worker keeps a named value until it leaves. DUPLICATE if the name is taken, INVALID for a name
// that is none, and for a value of another worker: a name is where its value is, so that what is
// found by it is there. The owner names it, in a function that takes the reference.
GW_API void gw_rref_set_name(gw_scope *s, gw_rref *ref, const char *name);

// gw_named(s, to, name): a reference to what |to| has named so; |to| as in calls. Waits until it
// has, at most until the deadline of a call. Fails with TIMEOUT, or NOT_FOUND if |to| leaves without
// having named it.
GW_API gw_rref *gw_named(gw_scope *s, gw_target to, const char *name) GW_CALLS(gw_named_with);
#define gw_named(s, to, name) gw_named_with((s), gw_to(to), (name))
GW_API GW_TYPE_OF(gw_named) gw_named_with;

// ---- About a reference --------------------------------------------------------------------------
GW_API gw_worker gw_rref_owner(gw_scope *s, const gw_rref *ref);
GW_API const char *gw_rref_owner_name(gw_scope *s, const gw_rref *ref);  // "" with |s| failed
GW_API bool gw_rref_is_owner(const gw_rref *ref);
// Whether the owner is known to have accepted this reference. Always so on the owner.
GW_API bool gw_rref_is_confirmed(const gw_rref *ref);

// ---- All references -----------------------------------------------------------------------------
// How many values of this worker are kept for references, here or elsewhere: 0 after all are given
// back.
GW_API int gw_rref_owned_count(gw_scope *s);

// One reference, as this worker knows it: another worker's to a value of this one, or this worker's to
// a value of another.
typedef struct gw_reference_info {
    uint64_t id;              // names the value in the whole job; 0: it has never been sent away
    gw_worker owner, holder;  // texts live as long as the agent
    const char
        *what;  // "tensor", "list", a class; "being made", "error"; "" where only the owner knows
    const char *origin;  // where it was made, "train.c:12"; "" if that is not known
    int64_t age_ms;      // since this worker has it
    bool is_confirmed;   // the owner has accepted it
    bool is_mine;        // this worker is the owner
} gw_reference_info;

// Writes what there is at this moment, at most |max|, and returns how many there are: values of
// this worker, once for each reference elsewhere and once for all that are here; then references to
// values of others. In no particular order.
GW_API int gw_references(gw_scope *s, gw_reference_info *out, int max);

#ifdef __cplusplus
}
#endif

#endif
