// Collectives: one operation that all members of a group do together.
//
//     gw_group  *g    = gw_group_world(root);
//     gw_tensor *mean = gw_all_reduce(s, g, x, GW_AVG);                 // the same bits on every member
//     gw_tensor *w    = gw_broadcast(s, g, gw_group_rank(g) == 0 ? x : NULL, 0);
//     gw_future *f    = gw_all_reduce_async(s, g, x, GW_SUM);           // goes on meanwhile
//     gw_tensor *sum  = gw_tensor_of(s, gw_wait(s, f));
//
// Every member calls the same collectives in the same order, those without a key; and those of one key
// among themselves. What differs where it must not (operation, shape, dtype, root, whether a gradient is
// needed), a member that does not come before a deadline, one that gives up, one whose scope has failed
// before it called, one whose call is refused: each ends that collective on all members, with one sentence
// that names who did what, and nothing hangs. The group goes on with the next one. A member whose program has not looked at the
// error by then gets it from its next call, or from gw_rpc_shutdown.
//
// A call succeeds on a member once all members that it exchanges values with have made the same call: the root
// of gw_broadcast waits for those that it sends to. What members do not exchange there is compared by the next
// collective of that key, or by gw_rpc_shutdown, whose error it is then.
//
// Of a member that has not come, that sentence says what its program does. Members that wait for each other
// in several groups are named: w0 waits in "a" for w1, which waits in "b" for w0. After 10 s of waiting, and
// every 10 s, a line in the log says the same; and with each failure the log has the last collectives of the
// group, which gw_group_history gives at any time.
//
// Results are new tensors: a collective that fails has changed nothing. Sums are added in one order,
// which the number of members alone decides: the same inputs give the same bits on every member, at
// every size and over every transport. Halves are added in f32 and rounded once.
//
// How values go around follows from operation, number of members and size, by a table that `gw-bench
// --plans` prints with what each way takes here. GW_COLLECTIVE=all_reduce:direct,broadcast:tree in the
// environment of all members takes other ways, where an operation has them: flat (to whom it is for, in one
// step; all), direct (each member adds a slice; all_reduce, reduce), doubling (pairs exchange, then pairs of
// pairs; all_reduce, barrier), halving (the same with half as much in each step, and back; all_reduce), tree
// (reduce, broadcast, gather, scatter), chain (from one to the next, in pieces; broadcast, gather, scatter),
// hosts (within each host first, where all have equally many neighbouring ranks, a power of two;
// all_reduce, reduce, broadcast, all_gather, reduce_scatter).
//
// Each gw_x(s, g, ...) has gw_x_async, which gives a future of the same and does not wait; where
// nothing may wait, as in inline functions, only these are called. Both take options by name:
// gw_all_reduce(s, g, x, GW_SUM, .timeout_ms = 500).
//
// Gradients: the forms that wait record what they do if their input needs a gradient; each backward is a
// collective, too, which every member's pass enters, in any order. So the input needs a gradient on all
// members, or on none (MISMATCH: nobody would enter the others' backward where nothing was recorded); of
// gw_scatter_from the root's decides, and the others know by what they get. A member that does not use what
// it was given brings zeros once the last scope that holds it has closed. gw_all_reduce and gw_reduce of
// sums and means, gw_broadcast (where the others bring tensors that need a gradient, too, and not NULL),
// gw_all_gather, gw_gather_to, gw_scatter_from, gw_reduce_scatter, gw_all_to_all; other sums are
// UNSUPPORTED in a backward pass, and gw_all_gather_list takes nothing that needs a gradient (INVALID). A
// future's input needs none (INVALID).
//
// Errors: INVALID for arguments, and LIMIT with 1,024 of a group under way. A refused call takes its place in
// the order of calls: it fails with that error on each member that needs this one's part, and the next calls of
// all members belong together. (A key above its limit has no place: the others' deadlines end their calls. So
// they do for the gw_recv of a gw_send whose arguments are refused.) MISMATCH, TIMEOUT, CANCELLED,
// DISCONNECTED, and the error of the scope of a member that entered as failed.
// Ownership: results belong to the scope that called, or that waits. Arguments are borrowed until
// the call returns and may be written then: what is brought is what they held.
// Threads: as groups.
#ifndef GRADWIRE_COLLECTIVE_H
#define GRADWIRE_COLLECTIVE_H

#include <gradwire/group.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bools are combined by BAND, BOR, BXOR, MIN and MAX only; AVG takes floating numbers only, bit
// operations take none. Sums of integers wrap around, MIN and MAX hand on NaN, AVG divides the sum.
typedef enum gw_reduce_op {
    GW_SUM,
    GW_AVG,
    GW_PRODUCT,
    GW_MIN,
    GW_MAX,
    GW_BAND,
    GW_BOR,
    GW_BXOR,
    GW_REDUCE_OP_COUNT
} gw_reduce_op;

enum { GW_GROUP_TIMEOUT = -1 };  // that of the group

// An option that an operation has no use for is INVALID there, as .sizes of gw_all_reduce is.
typedef struct GW_BY_NAME gw_collective_options {
    // Collectives of one key are matched among themselves, so that members may call different keys in
    // different orders. 0: none. Below 2^62 - 1, else INVALID, and at most 65,536 of them in a group.
    uint64_t key GW_DEFAULT(0);
    int64_t timeout_ms GW_DEFAULT(GW_GROUP_TIMEOUT);
    // Of sums and means: numbers are multiplied by it first; the same for all. Finite, and whole for integers.
    double factor GW_DEFAULT(1);
    // Rows for each member, as many as there are members, of reduce_scatter (the same for all) and
    // all_to_all (each its own). NULL: equal ones.
    const int64_t *sizes GW_DEFAULT(NULL);
    // Of the forms that wait and give one dense tensor: takes the result, and is returned. It has the
    // result's shape and dtype, needs no gradient, and may be what is brought: gw_all_reduce(s, g, x, GW_SUM,
    // .into = x). Written once the collective has succeeded; where a member gets nothing (gw_reduce
    // elsewhere than on the root), never.
    gw_tensor *into GW_DEFAULT(NULL);
    const char *origin GW_DEFAULT(NULL);  // "train.c:12", which the short forms of C say
} gw_collective_options;

// The sum, mean, ... over all members, in the shape of |x|, which is the same for all as is its dtype. What is larger
// than 128 MiB, needs no gradient and has no factor is summed in pieces of 16 MiB, each a collective of its own: beside
// the result that takes some 200 MiB for each process, at any size. gw_all_reduce_async sums in one, and takes up to 1.6
// times its size beside the result. Of
// tensors that are sparse by rows (gw_rows) SUM and AVG, sparse and coalesced, with the bits of the same sum of
// dense ones.
GW_API gw_tensor *gw_all_reduce_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                     gw_collective_options options);
GW_API gw_future *gw_all_reduce_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                           gw_collective_options options);

// The same on member |root| alone; elsewhere a tensor without numbers.
GW_API gw_tensor *gw_reduce_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                                 gw_collective_options options);
GW_API gw_future *gw_reduce_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                       int root, gw_collective_options options);

// What |root| brings. The others bring NULL, or a tensor of the shape and dtype they expect.
GW_API gw_tensor *gw_broadcast_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                    gw_collective_options options);
GW_API gw_future *gw_broadcast_async_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                          gw_collective_options options);

// The rows of all, in the order of ranks. The number of rows may differ, the other sizes and the
// dtype are the same; a scalar counts as one row of one number. Tensors that are sparse by rows give one that is.
GW_API gw_tensor *gw_all_gather_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                     gw_collective_options options);
GW_API gw_future *gw_all_gather_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                           gw_collective_options options);

// The tensors of all, of any shapes and dtypes, as a list in the order of ranks.
GW_API gw_list *gw_all_gather_list_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                        gw_collective_options options);
GW_API gw_future *gw_all_gather_list_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                                gw_collective_options options);

// As gw_all_gather, on |root| alone; elsewhere a tensor without numbers.
GW_API gw_tensor *gw_gather_to_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                    gw_collective_options options);
GW_API gw_future *gw_gather_to_async_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                          gw_collective_options options);

// This member's tensor of those that |root| brings, one for each member, of any shapes. The others
// bring NULL.
GW_API gw_tensor *gw_scatter_from_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                       gw_collective_options options);
GW_API gw_future *gw_scatter_from_async_with(gw_scope *s, gw_group *g, const gw_list *list,
                                             int root, gw_collective_options options);

// This member's rows of the sum: the number of rows is a multiple of that of members, or |sizes|
// says how many each gets.
GW_API gw_tensor *gw_reduce_scatter_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                         gw_collective_options options);
GW_API gw_future *gw_reduce_scatter_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                               gw_reduce_op op, gw_collective_options options);

// Rows of |x| go to each member, equally many or as |sizes| says; gives those that came, in the order
// of ranks.
GW_API gw_tensor *gw_all_to_all_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                     gw_collective_options options);
GW_API gw_future *gw_all_to_all_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                           gw_collective_options options);

// Returns when all have called it.
GW_API void gw_barrier_with(gw_scope *s, gw_group *g, gw_collective_options options);
GW_API gw_future *gw_barrier_async_with(gw_scope *s, gw_group *g, gw_collective_options options);

// As gw_barrier; its error names all who have not come: torch.distributed.monitored_barrier.
GW_API void gw_monitored_barrier_with(gw_scope *s, gw_group *g, gw_collective_options options);
GW_API gw_future *gw_monitored_barrier_async_with(gw_scope *s, gw_group *g,
                                                  gw_collective_options options);

// ---- Several at once ----------------------------------------------------------------------------
// The same of |count| tensors, as a list in their order, by one collective for each dtype among them:
// torch.distributed.all_reduce_coalesced and its like. Shapes and dtypes are the same on all members, else
// MISMATCH. No .sizes and no .into (INVALID).
GW_API gw_list *gw_all_reduce_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                             int count, gw_reduce_op op,
                                             gw_collective_options options);
GW_API gw_future *gw_all_reduce_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                                     int count, gw_reduce_op op,
                                                     gw_collective_options options);
// All bring tensors of the shapes and dtypes that |root| has.
GW_API gw_list *gw_broadcast_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                            int count, int root, gw_collective_options options);
GW_API gw_future *gw_broadcast_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                                    int count, int root,
                                                    gw_collective_options options);
// As gw_all_gather, gw_gather_to and gw_reduce_scatter of each.
GW_API gw_list *gw_all_gather_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                             int count, gw_collective_options options);
GW_API gw_future *gw_all_gather_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                                     int count, gw_collective_options options);
GW_API gw_list *gw_gather_to_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                            int count, int root, gw_collective_options options);
GW_API gw_future *gw_gather_to_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                                    int count, int root,
                                                    gw_collective_options options);
GW_API gw_list *gw_reduce_scatter_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                                 int count, gw_reduce_op op,
                                                 gw_collective_options options);
GW_API gw_future *gw_reduce_scatter_coalesced_async_with(gw_scope *s, gw_group *g,
                                                         gw_tensor *const *xs, int count,
                                                         gw_reduce_op op,
                                                         gw_collective_options options);

// ---- Values -------------------------------------------------------------------------------------
// The same for anything that a call can carry: torch.distributed.all_gather_object and its like.
// References in them are held as those in calls are. No gradient flows through tensors in them.

// gw_all_gather_value(s, g, x): of all, in the order of ranks. gw_gather_value_to(s, g, x, root): on
// |root| alone, elsewhere empty.
GW_API gw_list *gw_all_gather_value_with(gw_scope *s, gw_group *g, gw_value x,
                                         gw_collective_options options);
GW_API gw_future *gw_all_gather_value_async_with(gw_scope *s, gw_group *g, gw_value x,
                                                 gw_collective_options options);
GW_API gw_list *gw_gather_value_to_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                        gw_collective_options options);
GW_API gw_future *gw_gather_value_to_async_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                                gw_collective_options options);
// gw_broadcast_value(s, g, x, root): what |root| brings; what the others bring is not looked at.
GW_API gw_value gw_broadcast_value_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                        gw_collective_options options);
GW_API gw_future *gw_broadcast_value_async_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                                gw_collective_options options);
// This member's item of the list that |root| brings; the others bring NULL.
GW_API gw_value gw_scatter_value_from_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                           gw_collective_options options);
GW_API gw_future *gw_scatter_value_from_async_with(gw_scope *s, gw_group *g, const gw_list *list,
                                                   int root, gw_collective_options options);

// ---- Letters ------------------------------------------------------------------------------------
// What one member sends to another, matched by sender and tag, in order. They are not counted among
// the collectives, and pass between the living of a broken group. The receiver need not know shape
// or dtype. No gradient flows through them.
typedef struct GW_BY_NAME gw_message_options {
    int64_t tag GW_DEFAULT(0);
    int64_t timeout_ms GW_DEFAULT(GW_GROUP_TIMEOUT);
    const char *origin GW_DEFAULT(NULL);  // as of collectives
} gw_message_options;

// gw_send(s, g, x, to, .tag = 3) returns when the receiver has taken it. gw_isend gives a future of
// that, and does not wait. Before gw_send to oneself comes a gw_irecv: nobody else would receive.
GW_API void gw_send_with(gw_scope *s, gw_group *g, gw_tensor *x, int to,
                         gw_message_options options);
GW_API gw_future *gw_isend_with(gw_scope *s, gw_group *g, gw_tensor *x, int to,
                                gw_message_options options);

// gw_recv(s, g, from, .tag = 3): the next letter of that member with that tag. gw_recv_any(s, g, &from)
// of any member, of which it says the rank. gw_irecv and gw_irecv_any give futures and do not wait; what
// the second one gives is a list of the rank and the tensor.
GW_API gw_tensor *gw_recv_with(gw_scope *s, gw_group *g, int from, gw_message_options options);
GW_API gw_future *gw_irecv_with(gw_scope *s, gw_group *g, int from, gw_message_options options);
GW_API gw_tensor *gw_recv_any_with(gw_scope *s, gw_group *g, int *out_from,
                                   gw_message_options options);
GW_API gw_future *gw_irecv_any_with(gw_scope *s, gw_group *g, gw_message_options options);

// Several at once: torch.distributed.batch_isend_irecv.
//
//     gw_group *g = gw_group_world(root);
//     int n = gw_group_size(g), me = gw_group_rank(g);
//     gw_message ring[] = { { .peer = (me + 1) % n, .send = x }, { .peer = (me + n - 1) % n } };
//     gw_list *came = gw_batch(s, g, ring, 2);
//     gw_tensor *theirs = gw_tensor_of(s, gw_list_get(s, came, 1));
typedef struct gw_message {
    int peer;         // a rank in the group
    gw_tensor *send;  // to |peer|; NULL: one is received from there
    int64_t tag;
} gw_message;

// All set out before any is waited for, so that members may name theirs in any order. As a list in their
// order: the tensors that were received, none where one was sent. INVALID before anything is sent;
// |options| counts for all; each letter has a tag of its own, so |options| has none (INVALID).
GW_API gw_list *gw_batch_with(gw_scope *s, gw_group *g, const gw_message *letters, int count,
                              gw_message_options options);
GW_API gw_future *gw_batch_async_with(gw_scope *s, gw_group *g, const gw_message *letters,
                                      int count, gw_message_options options);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/collective.h>
#endif
