// Remote references.
//
// A reference names a value that lives on another worker, its owner. The owner keeps the value for as long as any worker
// holds a reference to it. References travel as arguments and results, also before the value behind them exists.
//
//     gw_rref   *w    = gw_remote(s, "ps", "make_weights", 128, 64);     // returns at once
//     gw_tensor *here = gw_to_here(s, w);                                // waits, copies
//     gw_rref   *c    = gw_remote(s, "ps", "counter", 3);                // an object
//     int64_t    n    = gw_int_of(s, gw_rpc_sync(s, c, "add", 4));       // a method of it
//
// An error in making the value is delivered to every use of the reference. When a worker is lost, what it held is given
// back for it, and references to its values fail with REF_LOST. Cycles of references over workers are not collected.
// Ownership: a reference belongs to the scope that made it; closing the scope gives it back.
// Threads: as its scope.
#ifndef GRADWIRE_REF_H
#define GRADWIRE_REF_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

// Copies the value to this worker, waiting at most the scope's deadline (60 s by default). The first is for tensors. On
// the owner it is the value itself, not a copy.
// Fails with what failed in making the value, REF_LOST if the owner is gone (DISCONNECTED if it goes meanwhile), TIMEOUT,
// INVALID for an object, WRONG_STATE after shutdown.
GW_API gw_tensor *gw_to_here(gw_scope *s, gw_rref *ref);
GW_API gw_value gw_to_here_value(gw_scope *s, gw_rref *ref);

// A reference to a value of this worker. Costs nothing until it is sent away.
#define gw_rref_open(s, x) gw_rref_open_value((s), gw_value_of(x))
GW_API gw_rref *gw_rref_open_value(gw_scope *s, gw_value v);

// On the owner only (else INVALID naming both workers).
// gw_local(s, ref, type) enters the object behind |ref|, of the class |type|: returns its struct, a type *, and holds its
// turn until |s| closes; while a call or wait of |s| or of a scope inside it waits, other turns may run. NULL with |s|
// failed: INVALID if the object is of another class or |s| outlives the call it is used in, TIMEOUT if its turn did not come.
#define gw_local(s, ref, type) ((type *)gw_local_as((s), (ref), #type))
GW_API void *gw_local_as(gw_scope *s, gw_rref *ref, const char *class_name);
// The value itself, not a copy; waits until it is made.
GW_API gw_value gw_rref_local_value(gw_scope *s, gw_rref *ref);

GW_API gw_worker gw_rref_owner(gw_scope *s, const gw_rref *ref);
GW_API bool gw_rref_is_owner(const gw_rref *ref);
// Whether the owner is known to have accepted this reference.
GW_API bool gw_rref_is_confirmed(const gw_rref *ref);

// How many values of this worker are kept for references, here or elsewhere: 0 after all are given back.
GW_API int gw_rref_owned_count(gw_scope *s);

#ifdef __cplusplus
}
#endif
#endif
