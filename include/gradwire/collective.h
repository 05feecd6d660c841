// Collectives: operations that all members of a group call together.
//
//     gw_group  *g    = gw_group_world(root);
//     gw_tensor *mean = gw_all_reduce(s, g, x, GW_AVG);                 // the same bits on every member
//     gw_tensor *w    = gw_broadcast(s, g, gw_group_rank(g) == 0 ? x : NULL, 0);
//     gw_future *f    = gw_all_reduce_async(s, g, x, GW_SUM);           // returns at once
//     gw_tensor *sum  = gw_tensor_of(s, gw_wait(s, f));
//
// Order: all members must call the collectives of a group in the same order. Keys (.key) relax this rule: only
// collectives with the same key must have the same order on all members. Collectives without a key are ordered as if
// they had one common key.
// Failures: a collective fails on all members, with one error, in each of these cases:
// * The calls of the members differ in an attribute that must agree: operation, shape, dtype, root, or whether a
//   gradient is needed.
// * A member does not call the collective before a deadline, or cancels the call.
// * A member makes the call in a scope that has failed, or makes a call that is refused.
//
// After the failure the members can call the next collective of the group. The error names the call of each member:
// "mismatched collectives: ...". If the program never reads the error of a collective, gw_rpc_shutdown reports the
// error.
//
// A call succeeds on a member when this member and all members with which it exchanges values have made the same call.
// The calls of the other members are compared later, by the next collective with the same key or by gw_rpc_shutdown. If
// these calls differ, the next collective fails on all members.
//
// The n-th calls of all members are matched. A call that fails, is refused or is cancelled is counted. When a
// collective fails, the later calls that members have made in the same scope fail, too. If a member then leaves this
// scope and calls a collective in another scope, the calls that it has not made in the old scope count as skipped. The
// matching calls of the other members fail. So make the calls of one step in one scope, and nest scopes in the same way
// on all members.
//
// The library does not detect every mistake. If members nest scopes differently, it cannot detect which calls they have
// skipped after a failure. If a member leaves out a call or makes an additional call, its later calls are matched with
// calls of other steps. In both cases the matched calls may succeed, although they belong to different steps. They fail
// with MISMATCH only if they differ in an attribute that must agree. After this error, later calls are still matched
// with calls of other steps.
// Stalls: a TIMEOUT names the members that did not arrive, and states what their programs do, even if members of
// several groups wait for each other. The log reports the same after every 10 s of waiting. gw_group_history lists the
// last collectives.
//
// Results are new tensors. A collective that fails changes no tensor. The order in which the terms of a sum are added
// depends only on the number of members. So the same inputs give the same bits on every member, at every size, over
// every transport. Elements of f16 and bf16 are added in f32 and rounded once.
//
// The library chooses the algorithm by operation, number of members, size and host; `gw-bench --plans` prints the
// choices. GW_COLLECTIVE=all_reduce:direct,broadcast:tree in the environment of all members selects other algorithms.
// These are the algorithms, and the operations that have them:
// * flat: all operations
// * direct: all_reduce, reduce
// * star: all_reduce, reduce, barrier. A few members add for all. It is chosen for all_reduce and barrier if more than 8
//   members share memory on a host that has fewer processors than members.
// * doubling: all_reduce, barrier
// * halving: all_reduce
// * tree: reduce, broadcast, gather, scatter
// * chain: broadcast, gather, scatter
// * hosts: all_reduce, reduce, broadcast, all_gather, reduce_scatter. Values are exchanged first within each host, then
//   between hosts. Each host must have the same number of members, which is a power of two, and the ranks of a host
//   must be consecutive.
//
// Gradients: gradients flow through the blocking functions. The backward of a collective is also a collective, which
// the backward passes of all members call. Members may call their backward collectives in different orders. The input
// of a collective must need a gradient on all members, or on none; otherwise the collective fails with MISMATCH. For
// gw_scatter_from, only the input of the root decides whether a gradient is needed. A member that does not use its
// result contributes zeros to the backward collective, when the last scope that holds the result has closed. A function
// that returns a future fails with INVALID if its input needs a gradient.
//
// CPU only: a call with a tensor on another device fails with UNSUPPORTED.
//
// Errors, of all functions: INVALID for invalid arguments; LIMIT if 1,024 collectives of a group are under way; LIMIT
// if one member sends another member a tensor of more than 4 GiB, except in gw_all_reduce, which sends large tensors in
// pieces; MISMATCH, TIMEOUT, CANCELLED, DISCONNECTED; the error of a member whose scope has failed. A refused call is
// counted: the collective fails with the same error on each member that needs the contribution of this member. A call
// with a key above the limit, or without a group, is not counted. The other members then wait for the call of this
// member until their deadline.
// Blocking: gw_isend, gw_irecv, gw_irecv_any and the functions with _async in their names return a future and do not
// block; inline functions may call them. All other functions block.
// Ownership: a result belongs to the scope of the call, or to the scope that waits for the future. The program may
// write to arguments as soon as the call has returned.
// Threads: as for groups (gradwire/group.h).
#ifndef GRADWIRE_COLLECTIVE_H
#define GRADWIRE_COLLECTIVE_H

#include <gradwire/group.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The operation that combines the elements of all members. AVG is for floating dtypes only. BAND, BOR and BXOR are for
/// integers and bools only. Bools can be combined only by BAND, BOR, BXOR, MIN and MAX. Sums and products of integers
/// wrap around. MIN and MAX give NaN if one element is NaN.
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

/// The value of .timeout_ms that stands for the timeout of the group.
enum { GW_GROUP_TIMEOUT = -1 };

/// Options of collectives. A call with an option that its operation does not use fails with INVALID.
typedef struct GW_BY_NAME gw_collective_options {
    /// Only collectives with the same key are matched, so that members may use different keys in different orders.
    /// 0: no key. A key is below 2^62 - 1. A group has at most 65,536 keys.
    uint64_t key GW_DEFAULT(0);
    int64_t timeout_ms
        GW_DEFAULT(GW_GROUP_TIMEOUT);  ///< milliseconds; GW_NO_TIMEOUT: only the scope's deadline
    /// For GW_SUM and GW_AVG: each element is multiplied by the factor before it is added. The factor is finite, and
    /// the same on all members. For integers the factor is a whole number.
    double factor GW_DEFAULT(1);
    /// The number of rows that each member gets: an array with one number for each member. For gw_reduce_scatter all
    /// members give the same numbers. For gw_all_to_all the numbers may differ between members. NULL: all members get
    /// the same number of rows.
    const int64_t *sizes GW_DEFAULT(NULL);
    /// For blocking functions that return one dense tensor: a tensor to which the result is written. The function
    /// returns this tensor. The tensor has the shape and dtype of the result, needs no gradient, and may be the input.
    /// It is written only if the call succeeds, and only on members that get a result (for gw_reduce only on the root).
    gw_tensor *into GW_DEFAULT(NULL);
    const char *origin GW_DEFAULT(NULL);  ///< "train.c:12"; set by the short forms of C
} gw_collective_options;

// ---- One tensor ---------------------------------------------------------------------------------

/// Combines |x| of all members by |op|; every member gets the same bits.
///
/// x: any shape; the same shape and dtype on all members. For GW_SUM and GW_AVG, |x| may be sparse by rows (gw_rows).
/// Returns: a tensor of the shape and dtype of |x|; sparse and coalesced if |x| is sparse.
/// Gradient: for GW_SUM and GW_AVG, the gradients of all members, combined by gw_all_reduce with the same |op| and
/// .factor. If |x| needs a gradient, any other |op| fails with UNSUPPORTED.
/// Memory: an input above 128 MiB is summed in pieces of 16 MiB if it needs no gradient and has no factor. At any size
/// this takes about 200 MiB in addition to the result. gw_all_reduce_async makes no pieces; it takes up to 1.6 times
/// the size of the input.
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

/// Combines |x| of all members by |op|; only member |root| gets the result.
///
/// x: any shape; the same shape and dtype on all members.
/// root: a rank, the same on all members.
/// Returns: on the root a tensor like |x|; elsewhere a tensor without elements.
/// Gradient: for GW_SUM and GW_AVG, every member gets the root's gradient times .factor; for GW_AVG the gradient is
/// also divided by the number of members. If |x| needs a gradient, any other |op| fails with UNSUPPORTED.
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
/// x: on the root a tensor of any shape; on the other members NULL, or a tensor of the shape and dtype that the member
/// expects.
/// root: a rank, the same on all members.
/// Returns: a tensor like the root's |x|.
/// Gradient: the root gets the sum of the gradients of all members; the other members get zeros. If a gradient is
/// needed, |x| must not be NULL on any member.
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
/// x: N F.... The number of rows N may differ between members. The other sizes and the dtype are the same on all
/// members. A scalar counts as one row of one element. |x| is sparse by rows (gw_rows) on all members or on none.
/// Returns: a tensor of all rows; sparse if |x| is sparse.
/// Gradient: the gradients of all members are summed, and each member gets its rows of the sum (a reduce_scatter).
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

/// Gathers |x| of all members, whose shapes and dtypes may differ.
///
/// x: any shape and dtype; INVALID if |x| needs a gradient.
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

/// Joins |x| of all members along dimension 0; only member |root| gets the result.
///
/// x: as for gw_all_gather.
/// root: a rank, the same on all members.
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
/// list: on the root a list with one tensor for each member, of any shapes; on the other members NULL.
/// root: a rank, the same on all members.
/// Returns: the tensor at this member's rank.
/// Gradient: each tensor of the root's list gets the gradient of the member that received it (a gather).
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
/// x: N F..., the same shape and dtype on all members. Without .sizes, N is a multiple of the number of members.
/// Returns: this member's rows.
/// Gradient: for GW_SUM and GW_AVG, the rows of the gradients of all members (an all_gather) times .factor; for GW_AVG
/// the rows are also divided by the number of members. If |x| needs a gradient, any other |op| fails with UNSUPPORTED.
/// Errors: INVALID for a scalar, if the members cannot get equal numbers of rows, or if .sizes do not sum up to N.
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
/// x: N F.... Member i gets part i of the rows. All parts have the same number of rows; with .sizes part i has
/// .sizes[i] rows.
/// Returns: the rows that this member received, in the order of ranks.
/// Gradient: the gradient of each row returns to the member that sent the row (an all_to_all).
/// Errors: INVALID for a scalar, if the members cannot get equal numbers of rows, or if .sizes do not sum up to N.
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

/// Blocks until all members have called gw_barrier.
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

/// Blocks until all members have called gw_monitored_barrier; a TIMEOUT names every member that did not arrive.
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
// The functions of this section run one operation on |count| tensors. |count|, the shapes and the dtypes must be the
// same on all members; otherwise the call fails with MISMATCH. A call counts as one collective. If the call reduces
// tensors, or if the tensors need a gradient, the call counts as one collective for each dtype. A call with .sizes or
// .into fails with INVALID. Memory: the tensors of a dtype are copied into one tensor, and their results are copied out
// of one tensor. While a call runs, a member needs up to about three times the memory of |xs| and the results together.

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
/// Errors: UNSUPPORTED if |xs| have several dtypes: call the function once for each dtype.
GW_API gw_future *gw_all_reduce_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs,
                                                int count, gw_reduce_op op,
                                                gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_reduce_coalesced_async_with);
#define gw_all_reduce_coalesced_async(...)                                                         \
    GW_FORM_AT_5(gw_all_reduce_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all_reduce_coalesced_async) gw_all_reduce_coalesced_async_with;

/// Copies |xs| of member |root| to all members.
///
/// xs: |count| tensors. On all members they have the shapes and dtypes of the root's tensors.
/// root: a rank, the same on all members.
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
/// root: a rank, the same on all members.
/// Returns: a list of the results in the order of |xs|; on members other than the root the results have no elements.
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

/// Combines each of |xs| and gives each member its rows of the result, as gw_reduce_scatter does.
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
/// Errors: UNSUPPORTED if |xs| have several dtypes: call the function once for each dtype.
GW_API gw_future *
gw_reduce_scatter_coalesced_async(gw_scope *s, gw_group *group, gw_tensor *const *xs, int count,
                                  gw_reduce_op op, gw_collective_options options GW_DEFAULT({}))
    GW_CALLS(gw_reduce_scatter_coalesced_async_with);
#define gw_reduce_scatter_coalesced_async(...)                                                     \
    GW_FORM_AT_5(gw_reduce_scatter_coalesced_async, gw_collective_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reduce_scatter_coalesced_async) gw_reduce_scatter_coalesced_async_with;

// ---- Values -------------------------------------------------------------------------------------
// Collectives of values (gw_value) accept all kinds of values that calls accept as arguments. As in calls, a reference
// in a value keeps the object of the reference alive. No gradient flows through tensors in a value.

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

/// Gathers |x| of all members; only member |root| gets the values.
///
/// x: any value.
/// root: a rank, the same on all members.
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
/// root: a rank, the same on all members.
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
/// list: on the root a list with one item for each member; elsewhere NULL.
/// root: a rank, the same on all members.
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
// One member sends a tensor to another member. The receiver need not know the shape or the dtype. Messages are not
// counted as collectives. Live members of a broken group can still exchange messages. No gradient flows through
// messages.
// Failures: messages are matched in order, for each sender, receiver and tag: the n-th gw_send belongs to the n-th
// gw_recv. A call is also counted if it is refused, is made in a scope that has failed, misses its deadline or is
// cancelled. Then the matching call of the other member fails, too. So the message of a gw_recv that has missed its
// deadline is not received by a later gw_recv. If a gw_batch is refused, all its messages are refused. These calls are
// not counted: calls with a rank out of range or without a group, sends that end before all bytes of a large tensor
// have arrived, and calls that fail for lack of memory. gw_recv_any receives the first message, or the first failure of
// a gw_send, that has arrived and belongs to no earlier gw_recv. If gw_recv_any ends early, it takes no message.

/// Options of messages.
typedef struct GW_BY_NAME gw_message_options {
    int64_t tag GW_DEFAULT(0);
    int64_t timeout_ms
        GW_DEFAULT(GW_GROUP_TIMEOUT);  ///< milliseconds; GW_NO_TIMEOUT: only the scope's deadline
    const char *origin GW_DEFAULT(NULL);  ///< "train.c:12"; set by the short forms of C
} gw_message_options;

/// Sends |x| to member |to|, and blocks until member |to| has received |x|.
///
/// x: any shape and dtype.
/// to: a rank in the group. A member that sends to itself must call gw_irecv before gw_send.
/// Source: torch.distributed.send.
GW_API void gw_send(gw_scope *s, gw_group *group, gw_tensor *x, int to,
                    gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_send_with);
#define gw_send(...) GW_FORM_AT_4(gw_send, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_send) gw_send_with;

/// Sends |x| to member |to| and does not block.
///
/// Returns: a future of none, which resolves when member |to| has received |x|.
/// Source: torch.distributed.isend.
GW_API gw_future *gw_isend(gw_scope *s, gw_group *group, gw_tensor *x, int to,
                           gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_isend_with);
#define gw_isend(...) GW_FORM_AT_4(gw_isend, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_isend) gw_isend_with;

/// Receives the next message of member |from| with the tag .tag. Blocks until the message arrives.
///
/// from: a rank in the group.
/// Returns: the tensor of the message.
/// Source: torch.distributed.recv.
GW_API gw_tensor *gw_recv(gw_scope *s, gw_group *group, int from,
                          gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_recv_with);
#define gw_recv(...) GW_FORM_AT_3(gw_recv, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_recv) gw_recv_with;

/// Receives the next message of member |from| with the tag .tag and does not block.
///
/// Returns: a future of the tensor.
/// Source: torch.distributed.irecv.
GW_API gw_future *gw_irecv(gw_scope *s, gw_group *group, int from,
                           gw_message_options options GW_DEFAULT({})) GW_CALLS(gw_irecv_with);
#define gw_irecv(...) GW_FORM_AT_3(gw_irecv, gw_message_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_irecv) gw_irecv_with;

/// Receives a message of any member with the tag .tag. Blocks until a message arrives.
///
/// out_from: receives the rank of the sender.
/// Returns: the tensor of the message.
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

/// One message of gw_batch, to send or to receive.
typedef struct gw_message {
    int peer;         ///< a rank in the group
    gw_tensor *send;  ///< the tensor to send to |peer|; NULL: receive a tensor from |peer|
    int64_t tag;
} gw_message;

/// Sends and receives all |messages|, and blocks until all are complete. Each member may list its messages in any
/// order.
///
///     gw_group *g = gw_group_world(root);
///     int n = gw_group_size(g), me = gw_group_rank(g);
///     gw_message ring[] = { { .peer = (me + 1) % n, .send = x }, { .peer = (me + n - 1) % n } };
///     gw_list *received = gw_batch(s, g, ring, 2);
///     gw_tensor *theirs = gw_tensor_of(s, gw_list_get(s, received, 1));
///
/// messages: |count| messages. Each message has its own |tag|.
/// Returns: a list in the order of |messages|: the tensor of each received message, and none for each sent message.
/// Errors: INVALID, before any tensor is sent, if |options| have a tag.
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
