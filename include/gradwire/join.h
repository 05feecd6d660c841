// Join: data-parallel training in which members have inputs for different numbers of iterations.
//
//     gw_joinable parts[] = { { .ddp = gw_ddp_open(root, model) }, { .optimizer = opt } };
//     gw_join *join = gw_join_open(root, parts, 2);
//     for (int i = 0; i < count && gw_ok(root); i++) {                   // as many as this member has
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));
//         gw_optimizer_step(s, opt);
//         gw_scope_close_up(s);
//     }
//     gw_join_close(root, join);                                         // blocks until no member has inputs
//
// Replicas wait for each other in each step, so that without a join a member with fewer inputs would block the others.
// After a member has closed its join, it shadows the collectives of the other members' iterations: it contributes zeros
// to the means of gradients, and steps its part of a sharded optimizer. A member that shadows does not take part in
// other collectives of the program (batch norm over all members, metrics). When no member has inputs left, all replicas
// get the weights and buffers of a member that was active in the last iteration.
//
// If the first joinable is a gw_ddp, an iteration begins when the program calls the model of that gw_ddp in training,
// with gradients on; each iteration then runs one small collective in addition. Otherwise an iteration begins when the
// program calls gw_join_notify. Each iteration has one synchronised pass of each gw_ddp, or, if all members use
// gw_ddp_no_sync, no synchronised pass. A local optimizer that is not among the joinables makes no steps on members
// that have closed their join; at the end these members get the weights, but not the state of that optimizer.
//
// Errors, of all functions: INVALID for arguments. If an iteration fails on active members, it also fails on members
// that shadow it; then the next iteration follows. If a member fails outside an iteration, closes its join in a scope
// that has failed, or is lost, the join ends on all members with the error of that member.
// Ownership: a join belongs to the scope that it was opened in, and holds counts on its joinables.
// Threads: the same as for the model. A join has one iteration under way at a time.
// Source: torch.distributed.algorithms.Join.
#ifndef GRADWIRE_JOIN_H
#define GRADWIRE_JOIN_H

#include <gradwire/ddp.h>
#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A join, opened by gw_join_open.
typedef struct gw_join gw_join;

/// An iteration of a join; the same values on all members.
typedef struct gw_join_iteration {
    /// Counted from 1; at the end of the join, the number of the last iteration, or 0 if there was none.
    int64_t number;
    int members,
        /// How many members there are, and how many have inputs; at the end of the join, the values of the last
        /// iteration.
        active;
    int last;           ///< the highest active rank
    bool synchronised;  ///< the iteration has a pass that members reduce
} gw_join_iteration;

/// A function of a joinable, called on members that have closed their join, or at the end of the join.
typedef void gw_join_function(gw_scope *s, const gw_join_iteration *at, void *context);

/// An object that uses collectives in each iteration: |ddp|, or |optimizer|, or the functions.
typedef struct gw_joinable {
    gw_ddp *ddp;
    gw_optimizer *optimizer;  ///< a sharded optimizer, or one that has only local parameters
    /// Called in each iteration on members that have closed their join, also if the scope has failed; or NULL.
    gw_join_function *shadow;
    gw_join_function *finish;  ///< called on all members at the end of the join; or NULL
    void *context;
    /// The group of the collectives that |shadow| and |finish| call; NULL: these functions call no collectives.
    gw_group *group;
} gw_joinable;

/// Options of gw_join_open.
typedef struct GW_BY_NAME gw_join_options {
    /// True: the sum of gradients is divided by the number of active members. False: the sum is divided by the number
    /// of all members, as if members without inputs had gradients of zero.
    bool active_divisor GW_DEFAULT(false);
    /// The first member that closes its join ends the join for all members with CANCELLED: "w0 has no more input".
    bool fail_early GW_DEFAULT(false);
    /// The join does nothing: for programs with equal numbers of inputs.
    bool off GW_DEFAULT(false);
} gw_join_options;

/// Opens a join of |count| joinables. All members must call gw_join_open, with the same joinables in the same order. A
/// member that has closed its join shadows the joinables in that order, in one scope; so an optimizer finds the
/// gradients of the gw_ddp that precedes the optimizer.
///
/// Returns: the join.
/// Errors: INVALID if the joinables' groups have different members, or an optimizer has parameters of other workers;
/// WRONG_STATE for a gw_ddp that is in another join; DUPLICATE for a joinable that is given twice; MISMATCH if members
/// differ in joinables, .active_divisor or .off. If a member gives no joinables (NULL, or a count below 1), its group
/// is unknown, and the other members wait.
GW_API gw_join *gw_join_open(gw_scope *s, const gw_joinable *joinables, int count,
                             gw_join_options options GW_DEFAULT({})) GW_CALLS(gw_join_open_with);
#define gw_join_open(...) GW_FORM_3(gw_join_open, gw_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_join_open) gw_join_open_with;

/// Ends the inputs of this member. gw_join_close also runs in a scope that has failed.
///
/// Blocks: until no member has inputs; during that time this member shadows the iterations of the other members. The
/// log warns once, after 1,000 shadowed iterations.
/// Errors: those that the head of this file lists for all functions.
GW_API void gw_join_close(gw_scope *s, gw_join *join);

/// Begins an iteration of a join whose first joinable is not a gw_ddp. The iteration is synchronised unless
/// gw_ddp_no_sync was called in |s|.
/// Errors: INVALID for a join whose first joinable is a gw_ddp.
GW_API void gw_join_notify(gw_scope *s, gw_join *join);

/// Returns the iteration that is under way, or else the last iteration.
GW_API gw_join_iteration gw_join_get_iteration(const gw_join *join);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/join.h>
#endif
