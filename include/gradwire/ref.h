// Remote references.
//
// A reference names a value that lives on another worker, its owner. The owner keeps the value as long as any worker
// holds a reference to the value. References can be arguments and results of calls, even before the value exists.
//
//     gw_rref   *w    = gw_remote(s, "ps", "make_weights", 128, 64);     // returns at once
//     gw_tensor *here = gw_to_here(s, w);                                // blocks, copies
//     gw_rref   *c    = gw_remote(s, "ps", "counter", 3);                // an object
//     int64_t    n    = gw_int_of(s, gw_rpc_sync(s, c, "add", 4));       // a method of it
//
// A chain of calls over four workers. No value is sent through the caller, and no thread waits for another thread:
//
//     gw_rref *ra = gw_remote(s, "w1", "load", 1), *rb = gw_remote(s, "w2", "load", 2);
//     gw_rref *rc = gw_remote(s, "w3", "gw.add", ra, rb);                     // operators take the value of a reference
//     gw_rref *rd = gw_remote(s, "w4", "finish", gw_by_value(s, rc), rb);     // "tensor, rref": a value, a reference
//
// PyTorch's functions, and the functions of this header:
//
// - RRef(value): gw_rref_open(s, value)
// - rref.to_here(): gw_to_here(s, rref)
// - rref.rpc_sync().f(x): gw_rpc_sync(s, rref, "f", x)
// - rref.rpc_async().f(x): gw_rpc_async(s, rref, "f", x)
// - rref.remote().f(x): gw_remote(s, rref, "f", x)
// - rref.owner(): gw_rref_owner(s, rref)
// - rref.owner_name(): gw_rref_owner_name(s, rref)
// - rref.is_owner(): gw_rref_is_owner(rref)
// - rref.confirmed_by_owner(): gw_rref_is_confirmed(rref)
// - rref.local_value(): gw_rref_local_value(s, rref)
//
// A method can be called before its object exists: the owner starts the method when the object exists. gw_rpc_async and
// gw_remote do not wait for the object.
//
// Errors: if the creation of the value fails, every use of the reference fails with the error of the creation. When the
// owner is lost, uses of the reference fail with REF_LOST; the error states why the owner is gone. When another worker
// is lost, the owner releases the references of that worker. Objects of several workers may refer to each other in a
// cycle. The library does not detect such a cycle: the objects exist until gw_rpc_shutdown, which logs the references
// between them.
// Ownership: a reference belongs to the scope that made it; closing the scope releases it.
// Threads: the same as for its scope.
#ifndef GRADWIRE_REF_H
#define GRADWIRE_REF_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- The value ----------------------------------------------------------------------------------

/// Copies the tensor that |ref| names to this worker. On the owner, gw_to_here returns the tensor itself, not a copy.
///
/// Blocks: until the value exists and has arrived, at most until the deadline of the scope (60 s by default).
/// Returns: the tensor.
/// Gradient: flows to the owner's tensor, across workers (gradwire/dist.h).
/// Errors: the error of the creation of the value; REF_LOST if the owner is gone; DISCONNECTED if the owner is lost
/// during the call; TIMEOUT; INVALID for an object or a value that is no tensor; WRONG_STATE after shutdown.
/// Source: torch.distributed.rpc.RRef.to_here.
GW_API gw_tensor *gw_to_here(gw_scope *s, gw_rref *ref);

/// Copies the value that |ref| names to this worker; the value may be of any kind. Otherwise the same as gw_to_here.
///
/// Returns: the value.
GW_API gw_value gw_to_here_value(gw_scope *s, gw_rref *ref);

/// Starts gw_to_here_value and does not block.
///
/// Returns: a future of the value. When the function returns, the request for the value has been sent.
GW_API gw_future *gw_to_here_async(gw_scope *s, gw_rref *ref);

/// Makes an argument of a call that passes the value of |ref| instead of the reference. When the value exists, the
/// owner sends it directly to the callee. The callee starts when the value has arrived. |ref| may be released as soon
/// as the call has been made. Operators ("gw.add") get the value of a reference even without gw_by_value.
///
/// Returns: a future; the value is copied to this worker only if a thread of this worker waits for the future.
/// Errors: the call fails before the function runs, with the error of the creation of the value; with REF_LOST if the
/// owner is gone; with INVALID for an object.
GW_API gw_future *gw_by_value(gw_scope *s, gw_rref *ref);

/// Makes a reference to a value of this worker: `gw_rref *gw_rref_open(gw_scope *s, gw_value x)`. No message is sent
/// until a call or reply sends the reference.
///
/// x: any value.
/// Returns: the reference.
/// Source: torch.distributed.rpc.RRef.
#define gw_rref_open(s, x) gw_rref_open_with((s), gw_value_of(x), GW_ORIGIN)
GW_API gw_rref *gw_rref_open_with(gw_scope *s, gw_value v, const char *origin);

/// Enters the object that |ref| names, on the owner: `type *gw_local(gw_scope *s, gw_rref *ref, type)`. No method of
/// the object runs until |s| closes. The exception: methods may run while a call or a wait blocks in |s| or in a scope
/// inside |s|.
///
/// type: the class of the object.
/// Returns: the struct of the object; NULL if the call fails.
/// Errors: INVALID on a worker that is not the owner, for an object of another class, or if |s| is the scope of an
/// object instead of the scope of a call; TIMEOUT if methods of the object run until the deadline.
#define gw_local(s, ref, type) ((type *)gw_local_with((s), (ref), #type))
GW_API void *gw_local_with(gw_scope *s, gw_rref *ref, const char *class_name);

/// Reads the value that |ref| names, on the owner, without a copy. Blocks until the value exists.
///
/// Returns: the value.
/// Errors: INVALID on a worker that is not the owner, naming both workers; the error of the creation of the value.
/// Source: torch.distributed.rpc.RRef.local_value.
GW_API gw_value gw_rref_local_value(gw_scope *s, gw_rref *ref);

// ---- Names --------------------------------------------------------------------------------------
// A worker gives a name to one of its values, most often an object; other workers find the value by this name:
//
//     gw_rref_set_name(root, gw_remote(root, gw_rpc_self(root), "counter", 0), "hits");      // on "ps"
//     gw_rpc_sync(s, gw_named(s, "ps", "hits"), "add", 1);                                     // elsewhere

/// Gives the value of |ref| a name; only the owner can call gw_rref_set_name. The owner keeps a named value until the
/// owner leaves the job.
///
/// name: 1 to 127 bytes.
/// Errors: DUPLICATE if the name is taken; INVALID for a malformed name, and for a value of another worker. To name a
/// value of another worker, call a function on its owner that calls gw_rref_set_name with the reference.
GW_API void gw_rref_set_name(gw_scope *s, gw_rref *ref, const char *name);

/// Finds the value to which worker |to| has given the name |name|.
///
/// to: a name, a rank, or a gw_worker.
/// Blocks: until |to| has named the value, at most until the deadline of a call.
/// Returns: a reference to the value.
/// Errors: TIMEOUT; DISCONNECTED if |to| leaves, or calls gw_rpc_shutdown, before it has named the value; REMOTE, with
/// the error of the root scope of |to|, if this scope has failed; NOT_FOUND for an unknown worker.
GW_API gw_rref *gw_named(gw_scope *s, gw_target to, const char *name) GW_CALLS(gw_named_with);
#define gw_named(s, to, name) gw_named_with((s), gw_to(to), (name))
GW_API GW_TYPE_OF(gw_named) gw_named_with;

// ---- About a reference --------------------------------------------------------------------------

/// Returns the owner of |ref|. If |ref| is the result of a call that failed, |s| fails, and the result is a worker with
/// an empty name.
/// Source: torch.distributed.rpc.RRef.owner.
GW_API gw_worker gw_rref_owner(gw_scope *s, const gw_rref *ref);

/// Returns the name of the owner of |ref|; "" if the call fails.
GW_API const char *gw_rref_owner_name(gw_scope *s, const gw_rref *ref);

/// Returns whether this worker is the owner of |ref|.
GW_API bool gw_rref_is_owner(const gw_rref *ref);

/// Returns whether this worker has received the owner's confirmation that |ref| is registered; always true on the
/// owner.
GW_API bool gw_rref_is_confirmed(const gw_rref *ref);

// ---- All references -----------------------------------------------------------------------------

/// Returns the number of values of this worker to which this worker or other workers have references.
GW_API int gw_rref_owned_count(gw_scope *s);

/// One reference that this worker knows: either a reference to a value of this worker, or a reference of this worker to
/// a value of another worker.
typedef struct gw_reference_info {
    /// Identifies the value in the whole job; 0: the reference was never sent.
    uint64_t id;
    gw_worker owner, holder;  ///< texts live as long as the agent
    /// The kind of the value: "tensor", "list", the name of a class, "being made" or "error"; "" if only the owner
    /// knows the kind.
    const char *what;
    /// The source line of the call that made the reference, "train.c:12"; "" if unknown.
    const char *origin;
    int64_t age_ms;     ///< milliseconds since this worker got the reference
    bool is_confirmed;  ///< the owner has accepted the reference
    bool is_mine;       ///< this worker is the owner
} gw_reference_info;

/// Lists the references that exist now, in no particular order. A value of this worker is listed once for each
/// reference on another worker, and once for all references on this worker together. A reference to a value of another
/// worker is listed once.
///
/// out: receives at most |max| references.
/// Returns: the number of references.
GW_API int gw_references(gw_scope *s, gw_reference_info *out, int max);

#ifdef __cplusplus
}
#endif

#endif
