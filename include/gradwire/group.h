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

typedef struct gw_group_open_options {
    // NULL: the list is its name, and a second group of the same list is another one if every member
    // opens these in one order.
    const char *name GW_DEFAULT(NULL);
    int64_t timeout_ms GW_DEFAULT(300000);  // of each collective; GW_NO_TIMEOUT: only the scope's
} gw_group_open_options;

// gw_group_world(s, .timeout_ms = ...): all workers that are there now, by rank. In a job of a world
// size these are the same for all; in a job that workers join and leave, open it when all know who
// is there.
GW_API gw_group *gw_group_world_with(gw_scope *s, gw_group_open_options options);

// gw_group_open(s, workers, count, .name = ...): called by members only. INVALID if this worker is
// not among |workers|, or one of them is twice; DISCONNECTED if one is gone. DUPLICATE if a group of
// that name is open here.
GW_API gw_group *gw_group_open_with(gw_scope *s, const gw_worker *workers, int count,
                                    gw_group_open_options options);

// gw_group_of(s, g, ranks, count, ...): of members of |g|, by their ranks in it.
GW_API gw_group *gw_group_of_with(gw_scope *s, gw_group *g, const int *ranks, int count,
                                  gw_group_open_options options);

// gw_group_blocks(s, g, size, ...): the ranks of |g| in blocks of |size| neighbours; gives this
// worker's. INVALID unless |size| divides the size of |g|. For groups of one host:
// torch.distributed.new_subgroups.
GW_API gw_group *gw_group_blocks_with(gw_scope *s, gw_group *g, int size,
                                      gw_group_open_options options);

// gw_group_split(s, g, color, key, ...): the members of one color, in the order of their keys, and of
// their ranks where these are equal. A collective of |g|. NULL for a color below 0: MPI_Comm_split.
GW_API gw_group *gw_group_split_with(gw_scope *s, gw_group *g, int color, int key,
                                     gw_group_open_options options);

GW_API int gw_group_rank(const gw_group *g);  // of this worker
GW_API int gw_group_size(const gw_group *g);
GW_API const char *gw_group_name(const gw_group *g);
GW_API gw_worker gw_group_worker(gw_scope *s, const gw_group *g, int rank);  // INVALID

// Ends what is under way in |g|, and makes later collectives fail, on all members, with |status| and
// this sentence.
GW_API void gw_group_fail(gw_scope *s, gw_group *g, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/group.h>
#endif
