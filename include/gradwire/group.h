// Groups: workers that run collectives together.
//
//     gw_group *all = gw_group_world(root);                             // every worker of the job now
//     gw_tensor *sum = gw_all_reduce(s, all, x, GW_SUM);                // gradwire/collective.h
//
//     gw_worker stage[] = { gw_rpc_worker(root, "w2"), gw_rpc_worker(root, "w3") };
//     gw_group *g = gw_group_open(root, stage, 2, .name = "stage 1");   // on w2 and w3 only
//
// A group is a fixed list of members; the rank of a member is its index in the list. Opening a group sends no messages,
// except by gw_group_split and gw_group_join: the name, the generation and the list identify a group, and are the same
// on all members. A worker that joins the job later does not become a member of existing groups.
//
// When a member is lost or leaves, the groups of this member are broken: present and later collectives of these groups
// fail on all other members at once, with DISCONNECTED and the name of that member. Every other failure ends one
// collective for all members, with one error, and the group continues. The remaining members agree on what work is
// finished, or continue as a new group, to which joining members can belong:
//
//     gw_group *trainers = gw_group_join(root, "trainers");   // a new worker: blocks until it is admitted
//     gw_barrier(s, trainers);
//     if (gw_scope_error(s)->status == GW_DISCONNECTED) {      // on every remaining member
//         gw_scope_clear(s);
//         trainers = gw_group_reform(root, trainers, .min = 3);
//     }
//
// Backends: "session", the default, uses the connections of calls. "mpi" uses Open MPI, for programs that mpirun of
// Open MPI has started: sums are added in the same order as with "session" unless .any_order lets MPI choose. MPI runs
// only the collectives that have no key and use one tensor per member. All other collectives, and the comparison of
// calls, use the connections of calls. All processes that mpirun started must open such groups, in the same order. A
// process that ends blocks until all of these processes end. A mismatch, a late member or a failure is reported before
// MPI is called. If a deadline, gw_cancel or gw_group_fail ends a collective after MPI was called, MPI completes the
// collective and the library drops the result. MPI cannot continue after the loss of a process: mpirun then ends all
// processes. An error inside MPI on one member, lack of memory included, breaks the group for all members. The next
// generation of a group uses "session".
//
// Errors, of all functions: INVALID for arguments. If a member opens a group in a scope that has failed, or with
// invalid options, the group is broken on all members with the error of that member. All members can then open a group
// of the same name and list again. gw_group_split fails on all members if it is refused on one member. If the name or
// the list itself is refused (a rank out of range, a worker twice), the other members open a group that this member
// does not have. The collectives of that group block until their deadline, and the next collective of the group that
// was given to gw_group_of or gw_group_blocks fails on all members. After that, no member may open a group of that list
// again; but all members together can open groups by gw_group_split again. If gw_group_agree or gw_group_reform is
// refused on this member, the other members block until their deadline; the error that they get names this member and
// the call that this member has not made. If this member has not opened a group, the first collective of the other
// members in that group also blocks until its deadline, and its error also names this member and the call. If this
// member opens the group later, its calls for the collectives that have ended on the other members fail with the errors
// of those collectives; then all members continue together.
// Blocking: gw_group_split, gw_group_agree, gw_group_reform and gw_group_join block, and fail with WOULD_BLOCK in
// inline functions. The other functions do not block.
// Ownership: a group belongs to the scope that it was opened in; collectives under way keep it alive.
// Threads: several threads may use a group at once, if they call collectives without a key in an order that is the same
// on all members.
#ifndef GRADWIRE_GROUP_H
#define GRADWIRE_GROUP_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A fixed list of workers that run collectives together, opened by gw_group_world, gw_group_open and the like.
typedef struct gw_group gw_group;

/// Options of opening a group.
typedef struct GW_BY_NAME gw_group_open_options {
    /// UTF-8 without control characters and %, at most 127 bytes. NULL: only the list identifies the group. If all
    /// members open several groups of one list, they must open these groups in the same order.
    const char *name GW_DEFAULT(NULL);
    int64_t timeout_ms GW_DEFAULT(
        300000);  ///< milliseconds, of each collective; GW_NO_TIMEOUT: only the scope's deadline
    const char *backend GW_DEFAULT(NULL);  ///< "mpi"; NULL: "session"
    bool any_order GW_DEFAULT(
        false);  ///< the backend may add in its own order, which may change the last bits
} gw_group_open_options;

/// Opens the group of all workers of the job, by rank. In an elastic job the members must open this group at a time
/// when gw_rpc_workers returns the same workers on each of them.
///
/// Returns: the group.
/// Errors: as gw_group_open.
/// Source: torch.distributed.group.WORLD.
GW_API gw_group *gw_group_world(gw_scope *s, gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_world_with);
#define gw_group_world(...) GW_FORM_1(gw_group_world, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_world) gw_group_world_with;

/// Opens a group of |count| workers; only the members of the group call gw_group_open. In C this is a macro: put a
/// compound literal in parentheses, gw_group_open(s, ((gw_worker[]){ a, b }), 2).
///
/// workers: the members in the order of ranks, each once; this worker must be one of them.
/// Returns: the group.
/// Errors: INVALID for an invalid list or name; DISCONNECTED if a worker is gone; DUPLICATE if a scope of this worker
/// holds a group of that name; LIMIT with 4,096 groups open; UNSUPPORTED for "mpi" if gradwire was built without MPI,
/// or finds no MPI library; WRONG_STATE for "mpi" outside mpirun.
/// Source: torch.distributed.new_group.
GW_API gw_group *gw_group_open(gw_scope *s, const gw_worker *workers, int count,
                               gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_open_with);
#define gw_group_open(...) GW_FORM_3(gw_group_open, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_open) gw_group_open_with;

/// Opens a group of some members of |group|.
///
/// ranks: |count| ranks in |group|, the rank of this member among them.
/// Returns: the group.
/// Errors: as gw_group_open.
/// Source: torch.distributed.new_group.
GW_API gw_group *gw_group_of(gw_scope *s, gw_group *group, const int *ranks, int count,
                             gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_of_with);
#define gw_group_of(...) GW_FORM_4(gw_group_of, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_of) gw_group_of_with;

/// Divides the ranks of |group| into blocks of |size| neighbouring ranks, for example the ranks of one host, and opens
/// a group of the block that this member is in.
///
/// Returns: the group.
/// Errors: as gw_group_open; INVALID unless |size| divides the size of |group|.
/// Source: torch.distributed.new_subgroups.
GW_API gw_group *gw_group_blocks(gw_scope *s, gw_group *group, int size,
                                 gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_blocks_with);
#define gw_group_blocks(...) GW_FORM_3(gw_group_blocks, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_blocks) gw_group_blocks_with;

/// Splits |group|: the members of each color become a group, ordered by key, and by rank in |group| if keys are equal.
/// All members of |group| must call gw_group_split, as a collective.
///
/// color: if it is below 0, this member joins no group.
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

/// Lists the last 64 collectives that this member has entered, one per line: number, operation, size, source line of
/// the call, and when and how the collective ended, or the members that it waits for. The log has this list when a
/// collective fails.
///
/// Returns: text that lives as long as |s|; "" for a group that was re-formed.
GW_API const char *gw_group_history(gw_scope *s, gw_group *group);

/// Returns the member of rank |rank|.
/// Errors: INVALID when out of range.
GW_API gw_worker gw_group_worker(gw_scope *s, const gw_group *group, int rank);

// ---- After a loss -------------------------------------------------------------------------------
// All remaining members must call the functions of this section, in the same order; the group may be broken. Each call
// ends by the deadline of the group or of the scope, whichever is earlier. The call has the same result on all members,
// also if more members are lost during the call. TIMEOUT names the members that did not arrive.

/// Makes all present and later collectives of |group| fail on all members: for a member that cannot continue.
/// gw_group_fail works also if |s| has failed. Does not block.
///
/// status: the status of the error that all members get.
/// format: a format of printf for the text of that error.
/// Errors: INVALID for a status that is no error, or without a group.
/// Source: MPIX_Comm_revoke.
GW_API void gw_group_fail(gw_scope *s, gw_group *group, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

/// What the members agree on.
typedef struct gw_agreement {
    uint64_t flags;      ///< the bits that are set in the flags of all members; 0 if |s| has failed
    int missing_count;   ///< members that no longer take part: lost, or in gw_rpc_shutdown
    const int *missing;  ///< the ranks of these members in the group; lives as long as |s|
} gw_agreement;

/// Agrees with all remaining members on a result, for example on whether all members have finished a step. If one
/// member gets the result, all live members get it.
///
/// Blocks: until all remaining members have called gw_group_agree. A member that has called gw_rpc_shutdown, or has
/// failed, is listed as missing, like a lost member; this is no error.
/// flags: the bits that this member gives.
/// Returns: the bits that are set in the |flags| of all members, and the missing members.
/// Errors: TIMEOUT; DISCONNECTED if other members re-form the group instead, because another member is lost; this
/// member may not have detected that loss yet. Members that re-form the group wait until this member calls
/// gw_group_reform, too.
/// Source: MPIX_Comm_agree.
GW_API gw_agreement gw_group_agree(gw_scope *s, gw_group *group, uint64_t flags);

/// Options of gw_group_reform; the same on all members.
typedef struct GW_BY_NAME gw_reform_options {
    /// Blocks until there are so many members, and admits pending joiners up to this number.
    int min GW_DEFAULT(1);
    bool grow GW_DEFAULT(false);  ///< admits all pending joiners
    int64_t timeout_ms
        GW_DEFAULT(0);  ///< milliseconds; 0: the timeout of |group|, which the new group keeps
} gw_reform_options;

/// Opens the next generation of |group|: the remaining members in their old order, then joining members by rank. The
/// new group has the name of |group|, and numbers its collectives anew; |group| ends. Without --on-failure=keep or
/// --max-restarts, `gradwire run` ends all workers when the first worker fails.
///
/// If |s| holds |group|, |s| releases it, so that a loop in one scope keeps only one group. The handle |group| stays
/// valid until the new group is re-formed in turn; collectives of |group| fail with WRONG_STATE.
/// Returns: the new group. If a member of the new group was lost meanwhile, the new group is broken: re-form it again.
/// Errors: TIMEOUT with fewer than .min members; MISMATCH if members give different options.
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
        GW_DEFAULT(300000);  ///< milliseconds, of each collective of the new group
} gw_group_join_options;

/// Joins the group |name|. This worker must have joined the job before this call.
///
/// Blocks: until the members of the group re-form it and admit this worker.
/// Returns: the new group.
/// Errors: TIMEOUT; INVALID for a malformed name; DUPLICATE if another thread of this worker is joining the group;
/// DISCONNECTED if the group has no member left.
GW_API gw_group *gw_group_join(gw_scope *s, const char *name,
                               gw_group_join_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_join_with);
#define gw_group_join(...) GW_FORM_2(gw_group_join, gw_group_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_join) gw_group_join_with;

/// Returns the number of pending joiners of |group| whose requests this member has received; other members may have
/// received more.
GW_API int gw_group_pending(const gw_group *group);

/// Returns the generation of |group|: how often the group had been re-formed when |group| was opened; 0 for a group
/// that was never re-formed.
GW_API int gw_group_generation(const gw_group *group);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/group.h>
#endif
