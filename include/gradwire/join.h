// Join: data-parallel training in which members have different numbers of inputs.
//
//     gw_joinable parts[] = { { .ddp = gw_ddp_open(root, model) }, { .optimizer = opt } };
//     gw_join *join = gw_join_open(root, parts, 2);
//     for (int i = 0; i < count && gw_ok(root); i++) {                   // |count| may differ between members
//         gw_scope *s = gw_scope_open(root);
//         gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, images), labels));
//         gw_optimizer_step(s, opt);
//         gw_scope_close_up(s);
//     }
//     gw_join_close(root, join);                                         // blocks until no member has inputs
//
// Replicas wait for each other in each step. Without a join, a member with fewer inputs would block the other members.
// A member calls gw_join_close when it has no more inputs. Then it shadows the iterations of the active members, which
// still have inputs: it contributes zeros to the means of gradients, and steps its part of a sharded optimizer. It does
// not take part in other collectives of the program, such as batch norm over all members, or metrics. When no member
// has inputs, all replicas get the weights and buffers of a member that was active in the last iteration.
//
// If the first joinable is a gw_ddp, an iteration begins when the program calls the model of this gw_ddp in training
// mode, with gradients on. Then each iteration runs one small additional collective. If the first joinable is not a
// gw_ddp, an iteration begins when the program calls gw_join_notify. Each iteration has one synchronised pass of each
// gw_ddp. If all members use gw_ddp_no_sync, the iteration has no synchronised pass. If a local optimizer is not among
// the joinables, members that have closed their join do not step this optimizer. At the end they get the weights, but
// not the state of the optimizer.
//
// Errors, of all functions: INVALID for invalid arguments. If an iteration fails on active members, it also fails on
// members that shadow it; the next iteration can succeed. If a member fails outside an iteration, closes its join in a
// scope that has failed, or is lost, the join ends on all members with the error of that member.
// Ownership: a join belongs to the scope that it was opened in, and holds counts on its joinables.
// Threads: as for the model (gradwire/nn.h). A join has one iteration under way at a time.
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

/// An iteration of a join. The values are the same on all members.
typedef struct gw_join_iteration {
    /// The number of the iteration, from 1. At the end of the join: the number of the last iteration, or 0 without
    /// iterations.
    int64_t number;
    int members,
        /// The number of members, and the number of members that have inputs. At the end of the join: the values of the
        /// last iteration.
        active;
    int last;           ///< the highest rank of a member that has inputs
    bool synchronised;  ///< the iteration has a synchronised pass
} gw_join_iteration;

/// A function of a joinable. The library calls |shadow| in each iteration, on members that have closed their join. It
/// calls |finish| at the end of the join.
typedef void gw_join_function(gw_scope *s, const gw_join_iteration *at, void *context);

/// An object that uses collectives in each iteration: a |ddp|, an |optimizer|, or functions of the program.
typedef struct gw_joinable {
    gw_ddp *ddp;
    gw_optimizer *optimizer;  ///< a sharded optimizer, or one that has only local parameters
    /// Called in each iteration on members that have closed their join, also if |s| has failed; or NULL.
    gw_join_function *shadow;
    gw_join_function *finish;  ///< called on all members at the end of the join; or NULL
    void *context;
    /// The group of the collectives that |shadow| and |finish| call; NULL: these functions call no collectives.
    gw_group *group;
} gw_joinable;

/// Options of gw_join_open.
typedef struct GW_BY_NAME gw_join_options {
    /// True: the sum of gradients is divided by the number of members that have inputs. False: the sum is divided by
    /// the number of all members; members without inputs count as members whose gradients are 0.
    bool active_divisor GW_DEFAULT(false);
    /// When the first member closes its join, the join ends on all members with CANCELLED: "w0 has no more input".
    bool fail_early GW_DEFAULT(false);
    /// The join has no effect. For programs in which all members have the same number of inputs.
    bool off GW_DEFAULT(false);
} gw_join_options;

/// Opens a join of |count| joinables. All members must call gw_join_open, with the same joinables in the same order. A
/// member that has closed its join shadows the joinables in this order, in one scope. So list a gw_ddp before the
/// optimizer that uses its gradients.
///
/// Returns: the join.
/// Errors: INVALID if the groups of the joinables have different members, or if an optimizer has parameters of other
/// workers; WRONG_STATE for a gw_ddp that is in another join; DUPLICATE for a joinable that is given twice; MISMATCH if
/// members differ in joinables, .active_divisor or .off. If a member gives no joinables (NULL, or a count below 1), the
/// other members are not notified of its error, and wait for it.
GW_API gw_join *gw_join_open(gw_scope *s, const gw_joinable *joinables, int count,
                             gw_join_options options GW_DEFAULT({})) GW_CALLS(gw_join_open_with);
#define gw_join_open(...) GW_FORM_3(gw_join_open, gw_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_join_open) gw_join_open_with;

/// Closes the join on this member, which has no more inputs. gw_join_close also runs in a scope that has failed.
///
/// Blocks: until no member has inputs. Meanwhile this member shadows the iterations of the other members. The log warns
/// once, after 1,000 shadowed iterations.
/// Errors: those that the beginning of this header lists for all functions.
GW_API void gw_join_close(gw_scope *s, gw_join *join);

/// Begins an iteration of a join whose first joinable is not a gw_ddp. The iteration is synchronised unless
/// gw_ddp_no_sync was called in |s|.
/// Errors: INVALID for a join whose first joinable is a gw_ddp.
GW_API void gw_join_notify(gw_scope *s, gw_join *join);

/// Returns the iteration that is under way; if there is none, the last iteration.
GW_API gw_join_iteration gw_join_get_iteration(const gw_join *join);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/join.h>
#endif
