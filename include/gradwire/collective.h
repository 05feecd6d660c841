// Collectives: operations that all members of a group enter together.
//
//     gw_group  *g    = gw_group_world(root);
//     gw_tensor *mean = gw_all_reduce(s, g, x, GW_AVG);                 // the same bits on every member
//     gw_tensor *w    = gw_broadcast(s, g, gw_group_rank(g) == 0 ? x : NULL, 0);
//     gw_future *f    = gw_all_reduce_async(s, g, x, GW_SUM);           // does not block
//     gw_tensor *sum  = gw_tensor_of(s, gw_wait(s, f));
//
// Order: all members call the collectives of a group that have no key in the same order, and those of one key in the
// same order among themselves.
// Failures: a collective ends on all members with one error, and the group continues with the next one, if members
// differ in an attribute that must agree (operation, shape, dtype, root, whether a gradient is needed), if a member
// does not enter it before a deadline, cancels it, enters it with a failed scope, or makes a call that is refused. The
// text names the call of each member: "mismatched collectives: ...". An error that the program never reads is the error
// of gw_rpc_shutdown. A call succeeds on a member once all members that it exchanges values with have made the same
// call; calls of other members are compared by the next collective of that key, or by gw_rpc_shutdown: after a mismatch
// that a member could not see, its next call fails on all members.
// After a failure: the n-th call of each member is one collective. Calls that fail, are refused or are cancelled count.
// The failure also ends the calls that members have made after it in the same scope. A member that then calls in
// another scope skips the rest of that scope, and the calls of the other members in it fail. So make the calls of one
// step in one scope, nested alike on all members.
// Where members nest scopes differently, and skip calls after a failure, the calls of different steps may be added with
// status OK: nothing says then which calls were skipped. The same holds where a member leaves out a call, or makes one
// too many, though nothing has failed: its later calls are compared with the calls of other steps, which are a MISMATCH
// only if they differ in an attribute that must agree. A failure of that kind does not change which calls are compared.
// Stalls: the error names the members that did not arrive and what their programs do, also where members of several
// groups wait for each other. A line in the log reports this after 10 s and every 10 s. gw_group_history lists the last
// collectives.
//
// Results are new tensors: a collective that fails changes nothing. Sums are added in one order, which follows from the
// number of members alone: the same inputs give the same bits on every member, at every size, over every transport.
// f16 and bf16 are added in f32 and rounded once.
//
// The algorithm follows from operation, number of members and size, by a table that `gw-bench --plans` prints.
// GW_COLLECTIVE=all_reduce:direct,broadcast:tree in the environment of all members overrides it: flat (all operations),
// direct (all_reduce, reduce), doubling (all_reduce, barrier), halving (all_reduce), tree (reduce, broadcast, gather,
// scatter), chain (broadcast, gather, scatter), hosts (within each host first, where all hosts have equally many
// neighbouring ranks, a power of two: all_reduce, reduce, broadcast, all_gather, reduce_scatter).
//
// Gradients: the blocking forms record derivatives if their input needs a gradient. Each backward is a collective, too,
// which the pass of every member enters, in any order. So the input needs a gradient on all members or on none, else
// MISMATCH; of gw_scatter_from the root decides. A member that does not use its result contributes zeros, once the last
// scope that holds the result has closed. The input of a form that gives a future needs no gradient, else INVALID.
//
// CPU only: tensors of other devices are UNSUPPORTED.
//
// Errors, of all of them: INVALID for arguments; LIMIT with 1,024 collectives of a group under way, or when one member
// sends another a tensor of more than 4 GiB (a gw_all_reduce in pieces sends none so large); MISMATCH, TIMEOUT,
// CANCELLED, DISCONNECTED, and the error of a member that entered with a failed scope. A refused call keeps its place
// in the order of calls: it fails with that error on each member that needs this member's part. A call with a
// key above its limit, or without a group, has no place: this member leaves it out, and the deadlines of the others
// end theirs.
// Blocking: gw_x(s, g, ...) blocks; gw_x_async gives a future and does not block, so inline functions call it.
// Ownership: results belong to the scope that called, or that waits for the future. Arguments are borrowed until the
// call returns and may be written then.
// Threads: as groups.
#ifndef GRADWIRE_COLLECTIVE_H
#define GRADWIRE_COLLECTIVE_H

#include <gradwire/group.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What combines the elements of all members. Bools take BAND, BOR, BXOR, MIN and MAX only; AVG takes floating dtypes
/// only, bit operations take none. Sums of integers wrap around, MIN and MAX give NaN if one element is NaN.
typedef enum gw_reduce_op {
    GW_SUM,
    GW_AVG,  ///< the sum divided by the number of members
    GW_PRODUCT,
    GW_MIN,
    GW_MAX,
    GW_BAND,  ///< bitwise and
    GW_BOR,
    GW_BXOR,
    GW_REDUCE_OP_COUNT
} gw_reduce_op;

/// The timeout of the group, as a timeout in milliseconds.
enum { GW_GROUP_TIMEOUT = -1 };

/// Options of collectives. One that the operation does not use is INVALID.
typedef struct GW_BY_NAME gw_collective_options {
    /// Collectives of one key are matched among themselves, so that members may call different keys in different
    /// orders. 0: no key. Below 2^62 - 1; at most 65,536 keys in a group.
    uint64_t key GW_DEFAULT(0);
    int64_t
        timeout_ms GW_DEFAULT(GW_GROUP_TIMEOUT);  ///< milliseconds; GW_NO_TIMEOUT: only the scope's
    /// Of sums and means: elements are multiplied by it first. The same on all members, finite, whole for integers.
    double factor GW_DEFAULT(1);
    /// Rows for each member, one number per member, of gw_reduce_scatter (the same on all members) and
    /// gw_all_to_all (each member its own). NULL: equal ones.
    const int64_t *sizes GW_DEFAULT(NULL);
    /// Of the forms that block and return one dense tensor: receives the result, and is returned. It has the shape and
    /// dtype of the result, needs no gradient, and may be the input. Written only on success; never where a member
    /// gets no result (gw_reduce elsewhere than on the root).
    gw_tensor *into GW_DEFAULT(NULL);
    const char *origin GW_DEFAULT(NULL);  ///< "train.c:12"; set by the short forms of C
} gw_collective_options;

// ---- One tensor ---------------------------------------------------------------------------------

/// Combines |x| of all members by |op|: every member gets the same bits.
///
/// x: any shape; the same shape and dtype on all members. May be sparse by rows (gw_rows) for GW_SUM and GW_AVG.
/// Returns: a tensor of the shape and dtype of |x|; sparse and coalesced if |x| is sparse.
/// Gradient: of GW_SUM and GW_AVG, the all_reduce of the members' gradients by the same |op| and .factor. Another |op|
/// is UNSUPPORTED for an |x| that needs a gradient.
/// Memory: an input above 128 MiB without gradient and factor is summed in pieces of 16 MiB, with some 200 MiB in
/// addition to the result at any size. gw_all_reduce_async sums at once and takes up to 1.6 times the size.
/// Source: torch.distributed.all_reduce.
GW_API gw_tensor *gw_all_reduce(gw_scope *s, gw_group *group, gw_tensor *x, gw_reduce_op op,
                                gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_reduce_with);
#define gw_all_reduce(...) GW_FORM_AT_4(gw_all_reduce, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_reduce) gw_all_reduce_with;

/// Starts gw_all_reduce and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_all_reduce_async(gw_scope *s, gw_group *group, gw_tensor *x, gw_reduce_op op,
                                      gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_reduce_async_with);
#define gw_all_reduce_async(...)                                                                   \
    GW_FORM_AT_4(gw_all_reduce_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_reduce_async) gw_all_reduce_async_with;

/// Combines |x| of all members by |op| on member |root| alone.
///
/// x: any shape; the same shape and dtype on all members.
/// root: a rank in the group, the same on all members.
/// Returns: on the root a tensor like |x|; elsewhere a tensor without elements.
/// Gradient: of GW_SUM and GW_AVG, the root's gradient times .factor on every member (divided by their number for
/// GW_AVG). Another |op| is UNSUPPORTED for an |x| that needs a gradient.
/// Source: torch.distributed.reduce.
GW_API gw_tensor *gw_reduce(gw_scope *s, gw_group *group, gw_tensor *x, gw_reduce_op op, int root,
                            gw_collective_options options GW_DEFAULT({})) GW_CALLS(gw_reduce_with);
#define gw_reduce(...) GW_FORM_AT_5(gw_reduce, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce) gw_reduce_with;

/// Starts gw_reduce and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_reduce_async(gw_scope *s, gw_group *group, gw_tensor *x, gw_reduce_op op,
                                  int root, gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_async_with);
#define gw_reduce_async(...) GW_FORM_AT_5(gw_reduce_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_async) gw_reduce_async_with;

/// Copies |x| of member |root| to all members.
///
/// x: on the root any shape; elsewhere NULL, or a tensor of the shape and dtype that this member expects.
/// root: a rank in the group, the same on all members.
/// Returns: a tensor like the root's |x|.
/// Gradient: to the root the sum of the members' gradients; elsewhere zeros. Needs a tensor, not NULL, on all members.
/// Source: torch.distributed.broadcast.
GW_API gw_tensor *gw_broadcast(gw_scope *s, gw_group *group, gw_tensor *x, int root,
                               gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_broadcast_with);
#define gw_broadcast(...) GW_FORM_AT_4(gw_broadcast, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_broadcast) gw_broadcast_with;

/// Starts gw_broadcast and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_broadcast_async(gw_scope *s, gw_group *group, gw_tensor *x, int root,
                                     gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_broadcast_async_with);
#define gw_broadcast_async(...) GW_FORM_AT_4(gw_broadcast_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_broadcast_async) gw_broadcast_async_with;

/// Joins |x| of all members along dimension 0, in the order of ranks.
///
/// x: N F...; the number of rows N may differ, the other sizes and the dtype are the same on all members. A scalar
/// counts as one row of one element. Sparse by rows (gw_rows) on all members or on none.
/// Returns: a tensor of all rows; sparse if |x| is.
/// Gradient: the sum over the members' gradients of this member's rows (a reduce_scatter).
/// Source: torch.distributed.all_gather_into_tensor.
GW_API gw_tensor *gw_all_gather(gw_scope *s, gw_group *group, gw_tensor *x,
                                gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_with);
#define gw_all_gather(...) GW_FORM_AT_3(gw_all_gather, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather) gw_all_gather_with;

/// Starts gw_all_gather and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_all_gather_async(gw_scope *s, gw_group *group, gw_tensor *x,
                                      gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_async_with);
#define gw_all_gather_async(...)                                                                   \
    GW_FORM_AT_3(gw_all_gather_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_async) gw_all_gather_async_with;

/// Gathers |x| of all members, of any shapes and dtypes.
///
/// x: any shape and dtype, also different ones; without a gradient (INVALID).
/// Returns: a list of tensors in the order of ranks.
/// Source: torch.distributed.all_gather.
GW_API gw_list *gw_all_gather_list(gw_scope *s, gw_group *group, gw_tensor *x,
                                   gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_list_with);
#define gw_all_gather_list(...) GW_FORM_AT_3(gw_all_gather_list, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_list) gw_all_gather_list_with;

/// Starts gw_all_gather_list and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_all_gather_list_async(gw_scope *s, gw_group *group, gw_tensor *x,
                                           gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_list_async_with);
#define gw_all_gather_list_async(...)                                                              \
    GW_FORM_AT_3(gw_all_gather_list_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_list_async) gw_all_gather_list_async_with;

/// Joins |x| of all members along dimension 0 on member |root| alone.
///
/// x: as of gw_all_gather.
/// root: a rank in the group, the same on all members.
/// Returns: on the root all rows in the order of ranks; elsewhere a tensor without elements.
/// Gradient: this member's rows of the root's gradient (a scatter).
/// Source: torch.distributed.gather.
GW_API gw_tensor *gw_gather_to(gw_scope *s, gw_group *group, gw_tensor *x, int root,
                               gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_gather_to_with);
#define gw_gather_to(...) GW_FORM_AT_4(gw_gather_to, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gather_to) gw_gather_to_with;

/// Starts gw_gather_to and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_gather_to_async(gw_scope *s, gw_group *group, gw_tensor *x, int root,
                                     gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_gather_to_async_with);
#define gw_gather_to_async(...) GW_FORM_AT_4(gw_gather_to_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gather_to_async) gw_gather_to_async_with;

/// Sends one tensor of the root's |list| to each member.
///
/// list: on the root a list of as many tensors as members, of any shapes; elsewhere NULL.
/// root: a rank in the group, the same on all members.
/// Returns: the tensor at this member's rank.
/// Gradient: to each tensor of the root's list the gradient of its member (a gather).
/// Errors: INVALID for a list of another length.
/// Source: torch.distributed.scatter.
GW_API gw_tensor *gw_scatter_from(gw_scope *s, gw_group *group, const gw_list *list, int root,
                                  gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_scatter_from_with);
#define gw_scatter_from(...) GW_FORM_AT_4(gw_scatter_from, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_scatter_from) gw_scatter_from_with;

/// Starts gw_scatter_from and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_scatter_from_async(gw_scope *s, gw_group *group, const gw_list *list, int root,
                                        gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_scatter_from_async_with);
#define gw_scatter_from_async(...)                                                                 \
    GW_FORM_AT_4(gw_scatter_from_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_scatter_from_async) gw_scatter_from_async_with;

/// Combines |x| of all members by |op| and gives each member its rows of the result.
///
/// x: N F..., the same shape and dtype on all members; N is a multiple of the number of members, or .sizes has the
/// rows of each member.
/// Returns: this member's rows.
/// Gradient: of GW_SUM and GW_AVG, the rows of all members' gradients (an all_gather) times .factor, divided by the
/// number of members for GW_AVG. Another |op| is UNSUPPORTED for an |x| that needs a gradient.
/// Errors: INVALID for a scalar, for rows that do not divide, and for .sizes of another sum.
/// Source: torch.distributed.reduce_scatter_tensor.
GW_API gw_tensor *gw_reduce_scatter(gw_scope *s, gw_group *group, gw_tensor *x, gw_reduce_op op,
                                    gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_scatter_with);
#define gw_reduce_scatter(...) GW_FORM_AT_4(gw_reduce_scatter, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_scatter) gw_reduce_scatter_with;

/// Starts gw_reduce_scatter and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_reduce_scatter_async(gw_scope *s, gw_group *group, gw_tensor *x,
                                          gw_reduce_op op,
                                          gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_scatter_async_with);
#define gw_reduce_scatter_async(...)                                                               \
    GW_FORM_AT_4(gw_reduce_scatter_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_scatter_async) gw_reduce_scatter_async_with;

/// Sends rows of |x| to each member.
///
/// x: N F...; member i gets the i-th of equal parts, or as many rows as .sizes[i].
/// Returns: the rows that this member received, in the order of ranks.
/// Gradient: the rows of the gradient return to the members that sent them (an all_to_all).
/// Errors: INVALID for a scalar, for rows that do not divide, and for .sizes of another sum.
/// Source: torch.distributed.all_to_all_single.
GW_API gw_tensor *gw_all_to_all(gw_scope *s, gw_group *group, gw_tensor *x,
                                gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_to_all_with);
#define gw_all_to_all(...) GW_FORM_AT_3(gw_all_to_all, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_to_all) gw_all_to_all_with;

/// Starts gw_all_to_all and does not block.
/// Returns: a future of the tensor.
GW_API gw_future *gw_all_to_all_async(gw_scope *s, gw_group *group, gw_tensor *x,
                                      gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_to_all_async_with);
#define gw_all_to_all_async(...)                                                                   \
    GW_FORM_AT_3(gw_all_to_all_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_to_all_async) gw_all_to_all_async_with;

/// Blocks until all members have called it.
/// Source: torch.distributed.barrier.
GW_API void gw_barrier(gw_scope *s, gw_group *group, gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_barrier_with);
#define gw_barrier(...) GW_FORM_AT_2(gw_barrier, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_barrier) gw_barrier_with;

/// Starts gw_barrier and does not block.
/// Returns: a future of none.
GW_API gw_future *gw_barrier_async(gw_scope *s, gw_group *group,
                                   gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_barrier_async_with);
#define gw_barrier_async(...) GW_FORM_AT_2(gw_barrier_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_barrier_async) gw_barrier_async_with;

/// Blocks until all members have called it; its error names every member that did not arrive.
/// Source: torch.distributed.monitored_barrier.
GW_API void gw_monitored_barrier(gw_scope *s, gw_group *group,
                                 gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_monitored_barrier_with);
#define gw_monitored_barrier(...)                                                                  \
    GW_FORM_AT_2(gw_monitored_barrier, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_monitored_barrier) gw_monitored_barrier_with;

/// Starts gw_monitored_barrier and does not block.
/// Returns: a future of none.
GW_API gw_future *gw_monitored_barrier_async(gw_scope *s, gw_group *group,
                                             gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_monitored_barrier_async_with);
#define gw_monitored_barrier_async(...)                                                            \
    GW_FORM_AT_2(gw_monitored_barrier_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_monitored_barrier_async) gw_monitored_barrier_async_with;

// ---- Coalesced ----------------------------------------------------------------------------------
// One operation on |count| tensors. |count|, shapes and dtypes are the same on all members, else MISMATCH, also if some
// members give no tensors. It is one collective; of tensors of several dtypes it is one for each dtype if they are
// added, or if they need a gradient. .sizes and .into are INVALID.
// Memory: the tensors of a dtype are copied into one, and so are their results. While a call runs, a member has up to
// about three times the size of |xs| and the results together.

/// Combines each of |xs| as gw_all_reduce does.
///
/// xs: |count| tensors.
/// Returns: a list of the results in the order of |xs|.
/// Gradient: as gw_all_reduce.
/// Source: torch.distributed.all_reduce_coalesced.
GW_API gw_list *gw_all_reduce_coalesced(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                        int count, gw_reduce_op op,
                                        gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_reduce_coalesced_with);
#define gw_all_reduce_coalesced(...)                                                               \
    GW_FORM_AT_5(gw_all_reduce_coalesced, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_reduce_coalesced) gw_all_reduce_coalesced_with;

/// Starts gw_all_reduce_coalesced and does not block.
/// Returns: a future of the list.
/// Errors: UNSUPPORTED if |xs| have several dtypes: call it once for each dtype.
GW_API gw_future *gw_all_reduce_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                                int count, gw_reduce_op op,
                                                gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_reduce_coalesced_async_with);
#define gw_all_reduce_coalesced_async(...)                                                         \
    GW_FORM_AT_5(gw_all_reduce_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_reduce_coalesced_async) gw_all_reduce_coalesced_async_with;

/// Copies |xs| of member |root| to all members.
///
/// xs: |count| tensors, on all members of the root's shapes and dtypes.
/// root: a rank in the group, the same on all members.
/// Returns: a list of copies in the order of |xs|.
/// Gradient: as gw_broadcast.
/// Source: torch.distributed._broadcast_coalesced.
GW_API gw_list *gw_broadcast_coalesced(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                       int count, int root,
                                       gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_broadcast_coalesced_with);
#define gw_broadcast_coalesced(...)                                                                \
    GW_FORM_AT_5(gw_broadcast_coalesced, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_broadcast_coalesced) gw_broadcast_coalesced_with;

/// Starts gw_broadcast_coalesced and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_broadcast_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                               int count, int root,
                                               gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_broadcast_coalesced_async_with);
#define gw_broadcast_coalesced_async(...)                                                          \
    GW_FORM_AT_5(gw_broadcast_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_broadcast_coalesced_async) gw_broadcast_coalesced_async_with;

/// Joins each of |xs| over all members as gw_all_gather does.
///
/// xs: |count| tensors.
/// Returns: a list of the results in the order of |xs|.
/// Gradient: as gw_all_gather.
/// Source: torch.distributed.all_gather_coalesced.
GW_API gw_list *gw_all_gather_coalesced(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                        int count, gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_coalesced_with);
#define gw_all_gather_coalesced(...)                                                               \
    GW_FORM_AT_4(gw_all_gather_coalesced, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_coalesced) gw_all_gather_coalesced_with;

/// Starts gw_all_gather_coalesced and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_all_gather_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                                int count,
                                                gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_coalesced_async_with);
#define gw_all_gather_coalesced_async(...)                                                         \
    GW_FORM_AT_4(gw_all_gather_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_coalesced_async) gw_all_gather_coalesced_async_with;

/// Joins each of |xs| on member |root| as gw_gather_to does.
///
/// xs: |count| tensors.
/// root: a rank in the group, the same on all members.
/// Returns: a list of the results in the order of |xs|; elsewhere than on the root of tensors without elements.
/// Gradient: as gw_gather_to.
GW_API gw_list *gw_gather_to_coalesced(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                       int count, int root,
                                       gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_gather_to_coalesced_with);
#define gw_gather_to_coalesced(...)                                                                \
    GW_FORM_AT_5(gw_gather_to_coalesced, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gather_to_coalesced) gw_gather_to_coalesced_with;

/// Starts gw_gather_to_coalesced and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_gather_to_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                               int count, int root,
                                               gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_gather_to_coalesced_async_with);
#define gw_gather_to_coalesced_async(...)                                                          \
    GW_FORM_AT_5(gw_gather_to_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gather_to_coalesced_async) gw_gather_to_coalesced_async_with;

/// Combines each of |xs| and gives each member its rows, as gw_reduce_scatter does.
///
/// xs: |count| tensors.
/// Returns: a list of this member's rows in the order of |xs|.
/// Gradient: as gw_reduce_scatter.
/// Source: torch.distributed.reduce_scatter_tensor_coalesced.
GW_API gw_list *gw_reduce_scatter_coalesced(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                            int count, gw_reduce_op op,
                                            gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_scatter_coalesced_with);
#define gw_reduce_scatter_coalesced(...)                                                           \
    GW_FORM_AT_5(gw_reduce_scatter_coalesced, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_scatter_coalesced) gw_reduce_scatter_coalesced_with;

/// Starts gw_reduce_scatter_coalesced and does not block.
/// Returns: a future of the list.
/// Errors: UNSUPPORTED if |xs| have several dtypes: call it once for each dtype.
GW_API gw_future *
gw_reduce_scatter_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs, int count,
                                  gw_reduce_op op, gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_scatter_coalesced_async_with);
#define gw_reduce_scatter_coalesced_async(...)                                                     \
    GW_FORM_AT_5(gw_reduce_scatter_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_scatter_coalesced_async) gw_reduce_scatter_coalesced_async_with;

// ---- Values -------------------------------------------------------------------------------------
// Collectives of anything that a call can carry. References in a value are held as those in calls are. No gradient
// flows through tensors in a value.

/// Gathers |x| of all members.
///
/// x: any value.
/// Returns: a list of the values in the order of ranks.
/// Source: torch.distributed.all_gather_object.
GW_API gw_list *gw_all_gather_value(gw_scope *s, gw_group *group, gw_value x,
                                    gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_value_with);
#define gw_all_gather_value(...) GW_FORM_AT_VALUE_3(gw_all_gather_value, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_value) gw_all_gather_value_with;

/// Starts gw_all_gather_value and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_all_gather_value_async(gw_scope *s, gw_group *group, gw_value x,
                                            gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_gather_value_async_with);
#define gw_all_gather_value_async(...) GW_FORM_AT_VALUE_3(gw_all_gather_value_async, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_gather_value_async) gw_all_gather_value_async_with;

/// Gathers |x| of all members on member |root| alone.
///
/// x: any value.
/// root: a rank in the group, the same on all members.
/// Returns: on the root a list of the values in the order of ranks; elsewhere an empty list.
/// Source: torch.distributed.gather_object.
GW_API gw_list *gw_gather_value_to(gw_scope *s, gw_group *group, gw_value x, int root,
                                   gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_gather_value_to_with);
#define gw_gather_value_to(...) GW_FORM_AT_VALUE_4(gw_gather_value_to, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gather_value_to) gw_gather_value_to_with;

/// Starts gw_gather_value_to and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_gather_value_to_async(gw_scope *s, gw_group *group, gw_value x, int root,
                                           gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_gather_value_to_async_with);
#define gw_gather_value_to_async(...) GW_FORM_AT_VALUE_4(gw_gather_value_to_async, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gather_value_to_async) gw_gather_value_to_async_with;

/// Copies |x| of member |root| to all members.
///
/// x: on the root any value; ignored elsewhere.
/// root: a rank in the group, the same on all members.
/// Returns: the root's value.
/// Source: torch.distributed.broadcast_object_list.
GW_API gw_value gw_broadcast_value(gw_scope *s, gw_group *group, gw_value x, int root,
                                   gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_broadcast_value_with);
#define gw_broadcast_value(...) GW_FORM_AT_VALUE_4(gw_broadcast_value, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_broadcast_value) gw_broadcast_value_with;

/// Starts gw_broadcast_value and does not block.
/// Returns: a future of the value.
GW_API gw_future *gw_broadcast_value_async(gw_scope *s, gw_group *group, gw_value x, int root,
                                           gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_broadcast_value_async_with);
#define gw_broadcast_value_async(...) GW_FORM_AT_VALUE_4(gw_broadcast_value_async, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_broadcast_value_async) gw_broadcast_value_async_with;

/// Sends one item of the root's |list| to each member.
///
/// list: on the root a list of as many items as members; elsewhere NULL.
/// root: a rank in the group, the same on all members.
/// Returns: the item at this member's rank.
/// Errors: INVALID for a list of another length.
/// Source: torch.distributed.scatter_object_list.
GW_API gw_value gw_scatter_value_from(gw_scope *s, gw_group *group, const gw_list *list, int root,
                                      gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_scatter_value_from_with);
#define gw_scatter_value_from(...)                                                                 \
    GW_FORM_AT_4(gw_scatter_value_from, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_scatter_value_from) gw_scatter_value_from_with;

/// Starts gw_scatter_value_from and does not block.
/// Returns: a future of the value.
GW_API gw_future *gw_scatter_value_from_async(gw_scope *s, gw_group *group, const gw_list *list,
                                              int root,
                                              gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_scatter_value_from_async_with);
#define gw_scatter_value_from_async(...)                                                           \
    GW_FORM_AT_4(gw_scatter_value_from_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_scatter_value_from_async) gw_scatter_value_from_async_with;

// ---- Messages -----------------------------------------------------------------------------------
// One member sends a tensor to another one; messages are matched by sender and tag, in order. They are not counted
// among the collectives, and pass between live members of a broken group. The receiver does not need shape or dtype.
// No gradient flows through them.
// Failures: the n-th gw_send of a tag to a member is received by its n-th gw_recv. A call that is refused, is made in a
// scope that has failed, is late or is cancelled keeps its place: the call of the other member fails, too. All messages
// of a refused gw_batch are refused. So a gw_recv that was late is not repeated for the same message. Without a place
// are calls with a rank that is out of range or a group that is not given, sends that were given up before all bytes of
// a large tensor had arrived, and calls that find no memory: the next call takes the place then. gw_recv_any takes the
// first message that has arrived and that no earlier gw_recv takes, also the failure of a gw_send; if it ends early it
// takes none.

/// Options of messages.
typedef struct GW_BY_NAME gw_message_options {
    int64_t tag GW_DEFAULT(0);
    int64_t
        timeout_ms GW_DEFAULT(GW_GROUP_TIMEOUT);  ///< milliseconds; GW_NO_TIMEOUT: only the scope's
    const char *origin GW_DEFAULT(NULL);          ///< "train.c:12"; set by the short forms of C
} gw_message_options;

/// Sends |x| to member |to| and blocks until it has received it.
///
/// x: any shape and dtype.
/// to: a rank in the group. A gw_send to this member itself follows a gw_irecv.
/// Source: torch.distributed.send.
GW_API void gw_send(gw_scope *s, gw_group *group, gw_tensor *x, int to,
                    gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_send_with);
#define gw_send(...) GW_FORM_AT_4(gw_send, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_send) gw_send_with;

/// Sends |x| to member |to| and does not block.
///
/// Returns: a future of none, done when the member has received it.
/// Source: torch.distributed.isend.
GW_API gw_future *gw_isend(gw_scope *s, gw_group *group, gw_tensor *x, int to,
                           gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_isend_with);
#define gw_isend(...) GW_FORM_AT_4(gw_isend, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_isend) gw_isend_with;

/// Blocks until the next message of member |from| with the tag .tag arrives.
///
/// from: a rank in the group.
/// Returns: its tensor.
/// Source: torch.distributed.recv.
GW_API gw_tensor *gw_recv(gw_scope *s, gw_group *group, int from,
                          gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_recv_with);
#define gw_recv(...) GW_FORM_AT_3(gw_recv, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_recv) gw_recv_with;

/// Receives the next message of member |from| with the tag .tag and does not block.
///
/// Returns: a future of its tensor.
/// Source: torch.distributed.irecv.
GW_API gw_future *gw_irecv(gw_scope *s, gw_group *group, int from,
                           gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_irecv_with);
#define gw_irecv(...) GW_FORM_AT_3(gw_irecv, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_irecv) gw_irecv_with;

/// Blocks until a message of any member with the tag .tag arrives.
///
/// out_from: receives the rank of the sender.
/// Returns: its tensor.
/// Source: torch.distributed.recv without src.
GW_API gw_tensor *gw_recv_any(gw_scope *s, gw_group *group, int *out_from,
                              gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_recv_any_with);
#define gw_recv_any(...) GW_FORM_AT_3(gw_recv_any, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_recv_any) gw_recv_any_with;

/// Receives a message of any member with the tag .tag and does not block.
///
/// Returns: a future of a list of the sender's rank and the tensor.
GW_API gw_future *gw_irecv_any(gw_scope *s, gw_group *group,
                               gw_message_options options GW_DEFAULT({}))
    GW_CALLS(gw_irecv_any_with);
#define gw_irecv_any(...) GW_FORM_AT_2(gw_irecv_any, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_irecv_any) gw_irecv_any_with;

/// One message of a batch: it is sent, or received.
typedef struct gw_message {
    int peer;         ///< a rank in the group
    gw_tensor *send;  ///< the tensor to send to |peer|; NULL: a message is received from there
    int64_t tag;
} gw_message;

/// Starts all |messages|, then blocks until all are done, so that members may name theirs in any order.
///
///     gw_group *g = gw_group_world(root);
///     int n = gw_group_size(g), me = gw_group_rank(g);
///     gw_message ring[] = { { .peer = (me + 1) % n, .send = x }, { .peer = (me + n - 1) % n } };
///     gw_list *received = gw_batch(s, g, ring, 2);
///     gw_tensor *theirs = gw_tensor_of(s, gw_list_get(s, received, 1));
///
/// messages: |count| of them, each with a tag of its own.
/// Returns: a list in their order: the tensor of a received message, none for a sent one.
/// Errors: INVALID, before any tensor is sent, for options with a tag.
/// Source: torch.distributed.batch_isend_irecv.
GW_API gw_list *gw_batch(gw_scope *s, gw_group *group, const gw_message *messages, int count,
                         gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_batch_with);
#define gw_batch(...) GW_FORM_AT_4(gw_batch, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_batch) gw_batch_with;

/// Starts gw_batch and does not block.
/// Returns: a future of the list.
GW_API gw_future *gw_batch_async(gw_scope *s, gw_group *group, const gw_message *messages,
                                 int count, gw_message_options options GW_DEFAULT({}))
    GW_CALLS(gw_batch_async_with);
#define gw_batch_async(...) GW_FORM_AT_4(gw_batch_async, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_batch_async) gw_batch_async_with;

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/collective.h>
#endif
