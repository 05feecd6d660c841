// Groups: workers that do something together, each as one of several.
//
//     gw_group *all = gw_group_world(root);                             // every worker that is there
//     gw_tensor *sum = gw_all_reduce(s, all, x, GW_SUM);                // gradwire/collective.h
//
//     gw_worker stage[] = { gw_rpc_worker(root, "w2"), gw_rpc_worker(root, "w3") };
//     gw_group *g = gw_group_open(root, stage, 2, .name = "stage 1");   // on w2 and w3 alone
//
// A group is a fixed list of members; each has a rank in it, which is its place in the list. Opening
// one sends nothing: members find each other by the group's name, its generation and its list, which
// all of them give. A worker that joins the job later is in none of them.
//
// A member that is lost, or leaves, breaks its groups: what is under way in them and what is tried
// later fails on all the others at once, with DISCONNECTED and its name. Everything else that goes
// wrong in a collective ends that collective for all, with one error, and the group goes on.
//
// Who is left agrees on what has been done, or goes on as a new group, with others in the place of
// those that are gone:
//
//     gw_group *trainers = gw_group_join(root, "trainers");   // a new worker: blocks until it is admitted
//     gw_barrier(s, trainers);
//     if (gw_scope_error(s)->status == GW_DISCONNECTED) {      // on every survivor
//         gw_scope_clear(s);
//         trainers = gw_group_reform(root, trainers, .min = 3);
//     }
//
// A backend carries the values of a group's collectives. The default, "session", is made of the
// connections that workers have anyhow. "mpi" is Open MPI, for programs started by its mpirun: sums
// keep their order and bits unless |any_order| lets MPI make them. It carries what has one tensor of
// each member and no key, several side by side; the rest, and who enters what, goes over sessions as
// ever. All processes that mpirun has started open such groups, those of one process in one order, and
// none of them ends before all do. What differs, comes late or has failed on a member is told before
// MPI hears of it. What is ended later, by a deadline, gw_cancel or gw_group_fail, goes on in MPI
// without its result, and the group goes on as any other. What MPI has not: a lost member ends the job,
// since mpirun then ends all processes; and what fails inside MPI on one member, or for want of memory
// there, breaks the group for all, with its sentence: MPI may then keep what the others have begun,
// and mpirun counts such processes as failed in the end. The next generation of a group has sessions.
// UNSUPPORTED where gradwire was built without MPI, or finds no library of it; WRONG_STATE outside
// mpirun; DISCONNECTED where a worker of the job is lost.
//
// Errors: INVALID for arguments, before anything is sent: others are not told. Of what all members call
// (gw_group_split, gw_group_agree, gw_group_reform) they wait for this one until their deadline, and of a
// group that it could not open, from their first collective on. Then they are told that it has not opened the
// group; if it does so later, its next call fails with what it has missed, and all go on together.
//
// gw_group_split, gw_group_agree, gw_group_reform and gw_group_join wait, and have no form that does not:
// inline functions cannot call them (WOULD_BLOCK). The other ways to open a group send nothing.
//
// Ownership: a group belongs to the scope it was opened in; what is under way keeps it.
// Threads: a group is used by any number of threads. Collectives without a key have the order in
// which they are called, which has to be the same on all members.
#ifndef GRADWIRE_GROUP_H
#define GRADWIRE_GROUP_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_group gw_group;

typedef struct GW_BY_NAME gw_group_open_options {
    // UTF-8 without control characters and %, at most 127 bytes, else INVALID. NULL: the list is its name, and a second group of the same list is another one if every member
    // opens these in one order.
    const char *name GW_DEFAULT(NULL);
    int64_t timeout_ms GW_DEFAULT(300000);  // of each collective; GW_NO_TIMEOUT: only the scope's
    const char *backend GW_DEFAULT(NULL);   // "mpi"; NULL: "session"
    bool any_order GW_DEFAULT(false);       // the backend may add in its own: bits are not promised
} gw_group_open_options;

// gw_group_world(s, .timeout_ms = ...): all workers that are there now, by rank. In a job of a world
// size these are the same for all; in a job that workers join and leave, open it when all know who
// is there.
GW_API gw_group *gw_group_world(gw_scope *s, gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_world_with);
#define gw_group_world(...) GW_FORM_1(gw_group_world, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_world) gw_group_world_with;

// gw_group_open(s, workers, count, .name = ...): called by members only. In C this is a macro, so a list that
// is written in place stands in parentheses: gw_group_open(s, ((gw_worker[]){ a, b }), 2). INVALID if this worker is
// not among |workers|, or one of them is twice; DISCONNECTED if one is gone. DUPLICATE if a scope holds a group of
// that name here. LIMIT if 4,096 groups are open.
GW_API gw_group *gw_group_open(gw_scope *s, const gw_worker *workers, int count,
                               gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_open_with);
#define gw_group_open(...) GW_FORM_3(gw_group_open, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_open) gw_group_open_with;

// gw_group_of(s, g, ranks, count, ...): of members of |g|, by their ranks in it.
GW_API gw_group *gw_group_of(gw_scope *s, gw_group *g, const int *ranks, int count,
                             gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_of_with);
#define gw_group_of(...) GW_FORM_4(gw_group_of, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_of) gw_group_of_with;

// gw_group_blocks(s, g, size, ...): the ranks of |g| in blocks of |size| neighbours; gives this
// worker's. INVALID unless |size| divides the size of |g|. For groups of one host:
// torch.distributed.new_subgroups.
GW_API gw_group *gw_group_blocks(gw_scope *s, gw_group *g, int size,
                                 gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_blocks_with);
#define gw_group_blocks(...) GW_FORM_3(gw_group_blocks, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_blocks) gw_group_blocks_with;

// gw_group_split(s, g, color, key, ...): the members of one color, in the order of their keys, and of
// their ranks where these are equal. A collective of |g|. NULL for a color below 0: MPI_Comm_split.
GW_API gw_group *gw_group_split(gw_scope *s, gw_group *g, int color, int key,
                                gw_group_open_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_split_with);
#define gw_group_split(...) GW_FORM_4(gw_group_split, gw_group_open_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_split) gw_group_split_with;

GW_API int gw_group_rank(const gw_group *g);  // of this worker
// How many members. 1 for what is no group, as of a scope that has failed: programs divide by it.
GW_API int gw_group_size(const gw_group *g);
GW_API const char *gw_group_name(const gw_group *g);
// The last 64 collectives that this member has entered, a line for each: number, operation, size, where it was
// called, when and how it ended, or for whom it waits. The log has them with a failure, like ones in a row as one line. Lives
// as long as |s|. "" of a group that was re-formed.
GW_API const char *gw_group_history(gw_scope *s, gw_group *g);
GW_API gw_worker gw_group_worker(gw_scope *s, const gw_group *g, int rank);  // INVALID

// ---- After a loss -------------------------------------------------------------------------------
// Called by all members that are left, in one order; they work in a group that is broken, too. Each
// ends by the deadline of the group or of the scope that comes first, whoever is lost meanwhile, and
// on all with the same: TIMEOUT with the names of those that have not come.

// Ends what is under way in |g|, and makes later collectives fail, on all members, with |status| and
// this sentence: for a member that cannot go on. Acts also when |s| has failed. INVALID for a status that is none of an
// error, or without a group. MPI's revoke.
GW_API void gw_group_fail(gw_scope *s, gw_group *g, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

// What all members that are left have heard alike.
typedef struct gw_agreement {
    uint64_t flags;      // the bits that all of them have given; 0 if |s| has failed
    int missing_count;   // members that take no part any more: lost, or in gw_rpc_shutdown
    const int *missing;  // their ranks in the group; lives as long as |s|
} gw_agreement;

// Ends when all that are left have called it: what one of them gets, all get that live, however many
// are lost meanwhile. It tells whether all have finished what some could not. MPI's agree. A member whose program can
// call nothing more, since it is in gw_rpc_shutdown or has failed, is missing, as a lost one is: no error. DISCONNECTED where others
// re-form the group instead, since one is gone that this member may not have missed yet: they wait until it does so, too.
GW_API gw_agreement gw_group_agree(gw_scope *s, gw_group *g, uint64_t flags);

// gw_group_reform(s, g, .min = ..., .grow = ...): a new group of those who are left, in their old
// order, then of joining workers, by rank. All give the same options, else MISMATCH. It has the
// name of |g|, which ends, and begins anew: members that were out of step in |g| are not in it. |s| gives |g| back, if
// it holds it, so that a loop in one scope keeps one group: |g| stays as a handle whose collectives are WRONG_STATE
// until the new group is re-formed in turn, and is not to be used after that. If
// one of its members is lost before it is there, it is broken from the start: re-form that one.
// TIMEOUT with fewer than |min|.
typedef struct GW_BY_NAME gw_reform_options {
    int min GW_DEFAULT(1);  // blocks until there are as many, and admits joining workers up to it
    bool grow GW_DEFAULT(false);       // admits all workers that are joining
    int64_t timeout_ms GW_DEFAULT(0);  // 0: that of the group, which the new one keeps
} gw_reform_options;

// `gradwire run` ends all workers with the first one that fails: those that are to go on need its
// --on-failure=keep.
GW_API gw_group *gw_group_reform(gw_scope *s, gw_group *g, gw_reform_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_reform_with);
#define gw_group_reform(...) GW_FORM_2(gw_group_reform, gw_reform_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_reform) gw_group_reform_with;

// gw_group_join(s, name): for a worker that has joined the job: waits until the members of the group
// of that name re-form it, and gives the new group. TIMEOUT if they have not by then.
typedef struct GW_BY_NAME gw_group_join_options {
    int64_t timeout_ms GW_DEFAULT(300000);             // to wait; GW_NO_TIMEOUT: only the scope's
    int64_t collective_timeout_ms GW_DEFAULT(300000);  // of the new group
} gw_group_join_options;

GW_API gw_group *gw_group_join(gw_scope *s, const char *name,
                               gw_group_join_options options GW_DEFAULT({}))
    GW_CALLS(gw_group_join_with);
#define gw_group_join(...) GW_FORM_2(gw_group_join, gw_group_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_group_join) gw_group_join_with;

// Workers in gw_group_join for |g|, as far as this member has received their requests; other members may have received more.
GW_API int gw_group_pending(const gw_group *g);
// How often the group was re-formed before it became |g|.
GW_API int gw_group_generation(const gw_group *g);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/group.h>
#endif
