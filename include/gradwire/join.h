// Join: members of a group with inputs for different numbers of iterations.
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
// Replicas wait for each other in each step, so that one with fewer inputs would block the others. A member that has
// closed its join shadows the collectives of their iterations: it contributes zeros to the means of gradients, steps its
// part of a sharded optimizer, and nothing to the program's own collectives (batch norm over all members, metrics). When
// no member has inputs left, all replicas get the weights and buffers of one that was active in the last iteration.
//
// An iteration begins at the first joinable: at a gw_ddp's forward in training, with gradients on, which then exchanges
// one small collective with the other members; or where the program calls gw_join_notify. Each has one synchronised pass
// of each gw_ddp, or, by gw_ddp_no_sync, none on any member. A local optimizer that is no joinable does not step on
// members that have closed: they get the weights, but not its state.
//
// Errors, of all of them: INVALID for arguments. An error that fails an iteration on the others fails a shadow, too, and
// the next iteration continues. A member that fails otherwise, or closes with a scope that has failed, ends the join on
// all members with its error; so does a member that is lost.
// Ownership: a join belongs to the scope that it was opened in, and holds counts on its joinables.
// Threads: as the model. One iteration at a time.
// Source: torch.distributed.algorithms.Join.
#ifndef GRADWIRE_JOIN_H
#define GRADWIRE_JOIN_H

#include <gradwire/ddp.h>
#include <gradwire/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A join: members run different numbers of iterations; opened by gw_join_open.
typedef struct gw_join gw_join;

/// An iteration, the same on all members.
typedef struct gw_join_iteration {
    int64_t number;  ///< from 1; at the end the number of the last one, 0 without one
    int members,
        active;  ///< how many members, and how many with inputs; at the end those of the last iteration
    int last;           ///< the highest active rank
    bool synchronised;  ///< it has a pass that members reduce
} gw_join_iteration;

/// A function of a joinable, called on members that have closed, or at the end.
typedef void gw_join_function(gw_scope *s, const gw_join_iteration *at, void *context);

/// A user of collectives in each iteration: |ddp|, or |optimizer|, or functions.
typedef struct gw_joinable {
    gw_ddp *ddp;
    gw_optimizer *optimizer;  ///< sharded, or all of it local
    gw_join_function *
        shadow;  ///< on members that have closed, in each iteration, also of a failed scope; NULL: nothing
    gw_join_function *finish;  ///< on all members, at the end; NULL: nothing
    void *context;
    gw_group *group;  ///< of the functions' collectives, and of no others; NULL: they have none
} gw_joinable;

/// Options of gw_join_open.
typedef struct GW_BY_NAME gw_join_options {
    /// Gradients are sums divided by the number of active members; else by that of all, so that a member without inputs
    /// counts as one with gradients of zero.
    bool active_divisor GW_DEFAULT(false);
    /// The first member that closes ends the join for all with CANCELLED: "w0 has no more input".
    bool fail_early GW_DEFAULT(false);
    bool off GW_DEFAULT(false);  ///< nothing happens: for inputs that are even
} gw_join_options;

/// Opens a join of |count| joinables. All members call it, with as many in the same order. Shadows share a scope, in the
/// order of |joinables|: one finds the gradients that a gw_ddp's shadow before it has left.
///
/// Returns: the join.
/// Errors: INVALID if the joinables' groups have different members, or an optimizer has parameters of other workers;
/// WRONG_STATE for a gw_ddp that is in another join; DUPLICATE for one that is given twice; MISMATCH if members have
/// other joinables, or differ in .active_divisor or .off. Without joinables (NULL, or a count below 1) the group is
/// unknown, and the other members wait.
GW_API gw_join *gw_join_open(gw_scope *s, const gw_joinable *joinables, int count,
                             gw_join_options options GW_DEFAULT({})) GW_CALLS(gw_join_open_with);
#define gw_join_open(...) GW_FORM_3(gw_join_open, gw_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_join_open) gw_join_open_with;

/// Ends the inputs of this member. Runs also in a scope that has failed.
///
/// Blocks: until no member has inputs; shadows the iterations of the others meanwhile. Warns once after 1,000
/// iterations.
/// Errors: those of all functions of this header.
GW_API void gw_join_close(gw_scope *s, gw_join *join);

/// Begins an iteration of a join whose first joinable is no gw_ddp. Its pass is synchronised if |s| is.
/// Errors: INVALID for a join whose first joinable is a gw_ddp.
GW_API void gw_join_notify(gw_scope *s, gw_join *join);

/// Returns the iteration that is under way, or was the last one.
GW_API gw_join_iteration gw_join_get_iteration(const gw_join *join);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/join.h>
#endif
