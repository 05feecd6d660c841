// Groups: lists of workers that call collectives together.
//
//     gw_group *all = gw_group_world(root);                             // all workers of the job
//     gw_tensor *sum = gw_all_reduce(s, all, x, GW_SUM);                // gradwire/collective.h
//
//     gw_worker stage[] = { gw_rpc_worker(root, "w2"), gw_rpc_worker(root, "w3") };
//     gw_group *g = gw_group_open(root, stage, 2, .name = "stage 1");   // on w2 and w3 only
//
// A group is a fixed list of members. The rank of a member is its index in the list. The name, the generation and the
// list identify a group, and are the same on all members. Opening a group sends no messages, except by gw_group_split
// and gw_group_join. A worker that joins the job later does not become a member of existing groups.
//
// When a member is lost, the groups of this member are broken. Present and later collectives of these groups fail on
// all other members at once, with DISCONNECTED and the name of the member. A member that leaves (gw_rpc_leave) breaks
// no group: collectives that it has completed succeed on the other members, and later ones fail with DISCONNECTED. Any
// other failure ends one collective on all members with one error, and the group can still be used. After a loss, the
// remaining members can agree on which work is finished (gw_group_agree), and can continue as a new group
// (gw_group_reform). New workers can join the new group:
//
//     gw_group *trainers = gw_group_join(root, "trainers");   // on a new worker; blocks until it is admitted
//     gw_barrier(s, trainers);
//     if (gw_scope_error(s)->status == GW_DISCONNECTED) {      // on every remaining member
//         gw_scope_clear(s);
//         trainers = gw_group_reform(root, trainers, .min = 3);
//     }
//
// Backends: the default is "session", which uses the connections of calls. "mpi" uses Open MPI, for programs that the
// mpirun of Open MPI has started. These rules hold for "mpi":
// * Sums are added in the same order as with "session". With .any_order, MPI chooses the order.
// * MPI runs only collectives that have no key and use one tensor per member. All other collectives, and the comparison
//   of calls, use the connections of calls.
// * All processes that mpirun has started must open the groups with "mpi", in the same order. A process that ends
//   blocks until all of these processes end.
// * A mismatch, a late member or a failure is reported before MPI is called. If a deadline, gw_cancel or gw_group_fail
//   ends a collective after MPI was called, MPI completes the collective, and the library drops the result.
// * MPI cannot continue after the loss of a process: mpirun then ends all processes.
// * An error inside MPI on one member, such as lack of memory, breaks the group on all members.
// * The next generation of the group uses "session".
//
// Errors, of all functions: INVALID for invalid arguments. An error on one member has these effects on the other
// members of a group:
// * If a member opens a group in a scope that has failed, or with invalid options, the group is broken on all members,
//   with the error of that member. Then all members can open a group with the same name and list again.
// * If gw_group_split is refused on one member, it fails on all members.
// * If the name or the list is refused on one member, for example because a rank is out of range, this member does not
//   have the group. The collectives of the other members in the group block until their deadline. If the group was
//   opened by gw_group_of or gw_group_blocks, the next collective of their argument |group| also fails on all members.
//   After that, no member can open a group with this list again, except all members together by gw_group_split.
// * If gw_group_agree or gw_group_reform is refused on one member, the other members block until their deadline. Their
//   error names that member and the call that it has not made.
// * If one member has not opened the group, the first collective of the other members blocks until its deadline. Its
//   error names that member and the call. If that member opens the group later, its calls of collectives that have
//   ended on the other members fail with the errors of these collectives. After that, all members can use the group.
//
// Blocking: gw_group_split, gw_group_agree, gw_group_reform and gw_group_join block, and fail with WOULD_BLOCK in
// inline functions. The other functions do not block.
// Ownership: a group belongs to the scope that it was opened in. Collectives under way also keep the group alive.
// Threads: several threads may use a group at once. The collectives without a key must have the same order on all
// members.
#ifndef GRADWIRE_GROUP_H
#define GRADWIRE_GROUP_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A fixed list of workers that call collectives together, opened by gw_group_world, gw_group_open and similar
/// functions.
typedef struct gw_group gw_group;

/// Options of opening a group.
typedef struct GW_BY_NAME gw_group_open_options {
    /// At most 127 bytes of UTF-8, without control characters and without %. NULL: the group has no name; if members
    /// open several such groups with the same list, they must open them in the same order.
    const char *name GW_DEFAULT(NULL);
    int64_t timeout_ms GW_DEFAULT(
        300000);  ///< milliseconds, for each collective; GW_NO_TIMEOUT: only the scope's deadline
    const char *backend GW_DEFAULT(NULL);  ///< "session" or "mpi"; NULL: "session"
    bool any_order GW_DEFAULT(
        false);  ///< the backend may choose the order of sums; results may then differ in the last bits
} gw_group_open_options;

/// Opens the group of all workers of the job, in the order of ranks. In a job of fixed size this includes workers that
/// have left: a collective fails if it needs a contribution that such a worker has not made. In an elastic job, members
/// may call gw_group_world only while gw_rpc_workers returns the same workers on all of them.
///
/// Returns: the group.
/// Errors: as gw_group_open.
/// Source: torch.distributed.group.WORLD.
GW_API gw_group *gw_group_world(gw_scope *s, gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_world_with);
#define gw_group_world(...) GW_FORM_1(gw_group_world, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_world) gw_group_world_with;

/// Opens a group of |count| workers. Only the members of the group call gw_group_open. In C gw_group_open is a macro:
/// put a compound literal in parentheses, gw_group_open(s, ((gw_worker[]){ a, b }), 2).
///
/// workers: the members, in the order of their ranks in the group, each once. This worker must be a member.
/// Returns: the group.
/// Errors: INVALID for an invalid list or name; DISCONNECTED if a worker is lost; DUPLICATE if this worker has an open
/// group with the same name; LIMIT if 4,096 groups are open; UNSUPPORTED for "mpi" if gradwire was built without MPI,
/// or finds no MPI library; WRONG_STATE for "mpi" outside mpirun.
/// Source: torch.distributed.new_group.
GW_API gw_group *gw_group_open(gw_scope *s, const gw_worker *workers, int count,
                               gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_open_with);
#define gw_group_open(...) GW_FORM_3(gw_group_open, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_open) gw_group_open_with;

/// Opens a group of some members of |group|.
///
/// ranks: |count| ranks in |group|, including the rank of this member.
/// Returns: the group.
/// Errors: as gw_group_open.
/// Source: torch.distributed.new_group.
GW_API gw_group *gw_group_of(gw_scope *s, gw_group *group, const int *ranks, int count,
                             gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_of_with);
#define gw_group_of(...) GW_FORM_4(gw_group_of, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_of) gw_group_of_with;

/// Divides the ranks of |group| into blocks of |size| consecutive ranks, for example the ranks of each host. Opens a
/// group of the block that contains this member.
///
/// Returns: the group.
/// Errors: as gw_group_open; INVALID unless |size| divides the size of |group|.
/// Source: torch.distributed.new_subgroups.
GW_API gw_group *gw_group_blocks(gw_scope *s, gw_group *group, int size,
                                 gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_blocks_with);
#define gw_group_blocks(...) GW_FORM_3(gw_group_blocks, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_blocks) gw_group_blocks_with;

/// Splits |group|: the members with the same |color| open a group. The members of the new group are ordered by |key|;
/// if keys are equal, by rank in |group|. All members of |group| must call gw_group_split, as a collective.
///
/// color: a number that selects the new group of this member. Below 0: this member opens no group.
/// Returns: the group of this member's color; NULL for a color below 0.
/// Errors: as gw_group_open, and as collectives of |group|.
/// Source: MPI_Comm_split.
GW_API gw_group *gw_group_split(gw_scope *s, gw_group *group, int color, int key,
                                gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_split_with);
#define gw_group_split(...) GW_FORM_4(gw_group_split, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_split) gw_group_split_with;

/// Returns the rank of this worker in |group|.
GW_API int gw_group_rank(const gw_group *group);

/// Returns the number of members; 1 for a group whose opening failed, because programs divide by the number.
GW_API int gw_group_size(const gw_group *group);

/// Returns the name of |group|.
GW_API const char *gw_group_name(const gw_group *group);

/// Lists the last 64 collectives that this member has called, one per line: number, operation, size, source line of the
/// call, and when and how the collective ended. For a collective under way the line names the members that it waits
/// for. When a collective fails, the log has this list.
///
/// Returns: a text that lives as long as |s|; "" for a group that was re-formed.
GW_API const char *gw_group_history(gw_scope *s, gw_group *group);

/// Returns the member with the rank |rank|.
/// Errors: INVALID when out of range.
GW_API gw_worker gw_group_worker(gw_scope *s, const gw_group *group, int rank);

// ---- After a loss -------------------------------------------------------------------------------
// All remaining members must call the functions of this section in the same order. The group may be broken. A call ends
// at the latest at the deadline of the group or of the scope. A call has the same result on all members, even if more
// members are lost during the call. The error TIMEOUT names the members that did not arrive.

/// Makes all present and later collectives of |group| fail on all members. A member calls gw_group_fail if it cannot
/// continue. The call works also if |s| has failed, and does not block.
///
/// status: the status of the error that all members get.
/// format: a format of printf for the text of that error.
/// Errors: INVALID if |status| is not an error, or if |group| is NULL.
/// Source: MPIX_Comm_revoke.
GW_API void gw_group_fail(gw_scope *s, gw_group *group, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

/// The result of gw_group_agree, the same on all members.
typedef struct gw_agreement {
    uint64_t flags;  ///< the bits that are set in the |flags| of all members; 0 if |s| has failed
    int missing_count;   ///< the number of members that are lost or have called gw_rpc_shutdown
    const int *missing;  ///< the ranks of these members in the group; lives as long as |s|
} gw_agreement;

/// Agrees with all remaining members on a result, for example on whether all members have finished a step. If one
/// member gets the result, all live members get the same result.
///
/// Blocks: until all remaining members have called gw_group_agree. A lost member, and a member that has called
/// gw_rpc_shutdown or has failed, is listed as missing. A missing member is not an error.
/// flags: the bits of this member.
/// Returns: the bits that are set in the |flags| of all members, and the missing members.
/// Errors: TIMEOUT; DISCONNECTED if other members have called gw_group_reform because of the loss of a member. This
/// member may not have detected that loss yet. The other members wait until this member calls gw_group_reform, too.
/// Source: MPIX_Comm_agree.
GW_API gw_agreement gw_group_agree(gw_scope *s, gw_group *group, uint64_t flags);

/// Options of gw_group_reform; the same on all members.
typedef struct GW_BY_NAME gw_reform_options {
    /// The smallest number of members of the new group. The call blocks until there are so many members, and admits
    /// pending joiners up to this number.
    int min GW_DEFAULT(1);
    bool grow GW_DEFAULT(false);       ///< admits all pending joiners
    int64_t timeout_ms GW_DEFAULT(0);  ///< milliseconds; 0: the timeout of |group|
} gw_reform_options;

/// Opens the next generation of |group|. Its members are the remaining members in their old order, then the joining
/// members by rank. The new group has the name and the timeout of |group|, and starts a new count of its collectives.
/// Without --on-failure=keep or --max-restarts, `gradwire run` ends all workers when the first worker fails.
///
/// Afterwards collectives of |group| fail with WRONG_STATE. If |s| holds |group|, |s| releases it, so that a loop in
/// one scope keeps only one group. The handle |group| stays valid until the new group is re-formed.
/// Returns: the new group. If a member of the new group is lost during the call, the new group is broken; then call
/// gw_group_reform for the new group.
/// Errors: TIMEOUT if there are fewer than .min members; MISMATCH if members give different options.
/// Source: MPIX_Comm_shrink.
GW_API gw_group *gw_group_reform(gw_scope *s, gw_group *group,
                                 gw_reform_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_reform_with);
#define gw_group_reform(...) GW_FORM_2(gw_group_reform, gw_reform_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_reform) gw_group_reform_with;

/// Options of gw_group_join.
typedef struct GW_BY_NAME gw_group_join_options {
    /// The timeout of this call in milliseconds. GW_NO_TIMEOUT: only the scope's deadline ends the call.
    int64_t timeout_ms GW_DEFAULT(300000);
    int64_t collective_timeout_ms
        GW_DEFAULT(300000);  ///< milliseconds, for each collective of the new group
} gw_group_join_options;

/// Joins the group |name|. This worker must have joined the job before.
///
/// Blocks: until the members call gw_group_reform and admit this worker.
/// Returns: the new group.
/// Errors: TIMEOUT; INVALID for a malformed name; DUPLICATE if another thread of this worker is joining the group;
/// DISCONNECTED if all members of the group have left or are lost.
GW_API gw_group *gw_group_join(gw_scope *s, const char *name,
                               gw_group_join_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_join_with);
#define gw_group_join(...) GW_FORM_2(gw_group_join, gw_group_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_join) gw_group_join_with;

/// Returns the number of requests to join |group| that this member has received and that are pending. Other members may
/// have received more requests.
GW_API int gw_group_pending(const gw_group *group);

/// Returns the generation of |group|: 0 if it was not opened by gw_group_reform or gw_group_join; otherwise the number
/// of times that the group was re-formed before.
GW_API int gw_group_generation(const gw_group *group);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/group.h>
#endif
