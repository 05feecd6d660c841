// Membership: the workers of the job, and events about them.
//
// One worker creates an elastic job, and other workers join it at any time. If a worker leaves or dies, the others
// continue:
//
//     gw_rpc_init(root, .name = "boss", .job = GW_JOB_CREATE);      // the others: GW_JOB_JOIN
//     gw_watch *w = gw_watch_open(root);
//     while (gw_ok(root)) {
//         gw_member_event e = gw_watch_next(root, w);                         // blocks; gw_watch_ready does not
//         if (e.kind == GW_MEMBER_DIED) printf("%s is dead: %s\n", e.worker.name, e.why.text);
//     }
//
// A job of fixed world size has the same events except JOINED. A worker that was killed is declared dead within a
// second. A silent worker (stopped, or cut off) is declared dead within 7 s, or within 31 s if nothing was ever
// received from it. Before that, the silent worker is SUSPECTED, and RECOVERED if something is received again. A worker
// that was declared dead stays dead: it gets the error FENCED. A fenced worker may join again by gw_rpc_init on another
// scope, as another member with a new rank. If it uses its old name again, the name then stands for the new member.
//
// Workers may receive events in different orders. The epoch is the number of members that have joined plus the number
// of members that have left or died, so that two workers that have received the same events have the same epoch.
//
// Errors, of all functions: WRONG_STATE without a job and after shutdown; FENCED if the other workers continue without
// this one.
// Ownership: a watch belongs to its scope, and closes with it. Names in events live as long as the agent.
// Threads: the same as for the scope.
#ifndef GRADWIRE_MEMBERSHIP_H
#define GRADWIRE_MEMBERSHIP_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A queue of events of members, opened by gw_watch_open.
typedef struct gw_watch gw_watch;

/// What happened to a member.
typedef enum gw_member_event_kind {
    GW_MEMBER_NONE = 0,  ///< the scope has failed
    GW_MEMBER_JOINED,
    GW_MEMBER_SUSPECTED,  ///< nothing was received from the member for some seconds
    GW_MEMBER_RECOVERED,  ///< something was received from the member again
    /// The member called gw_rpc_leave or gw_rpc_shutdown, or closed its scope.
    GW_MEMBER_LEFT,
    GW_MEMBER_DIED
} gw_member_event_kind;

/// An event of a member, as gw_watch_next returns it.
typedef struct gw_member_event {
    gw_member_event_kind kind;
    gw_worker worker;
    gw_error why;     ///< the reason of LEFT and DIED
    uint64_t epoch;   ///< the epoch after the event
    uint64_t missed;  ///< how many earlier events were dropped: the queue holds 256
} gw_member_event;

/// Opens a queue of the events from now on. If gw_rpc_workers is called after gw_watch_open, no worker is missed: a
/// change between the two calls is in the list and in the queue.
/// Returns: the queue.
GW_API gw_watch *gw_watch_open(gw_scope *s);

/// Blocks until the next event, at most until the deadline of |s|.
/// Returns: the event.
/// Errors: TIMEOUT; DISCONNECTED if no event can follow: in a job of fixed world size, after the last other worker is
/// gone.
GW_API gw_member_event gw_watch_next(gw_scope *s, gw_watch *w);

/// Returns whether gw_watch_next would not block.
GW_API bool gw_watch_ready(gw_watch *w);

/// Makes a future that fails, with DISCONNECTED and the name, as soon as one of |count| workers has died or left. Such
/// a future ends a wait when a worker is lost, before the deadline. For example, a method whose reply is sent when all
/// workers have called the method returns |first|:
///
///     gw_future *either[] = { self->all_arrived, self->lost };  // gw_member_lost(own, workers, count)
///     gw_future *first = gw_collect_first(s, either, 2);        // what the method returns
///
/// gw_wait_any waits for futures and members together.
///
/// workers: if the list is empty, or contains only this worker, the future does not resolve before gw_rpc_shutdown.
/// Returns: the future.
/// Errors: NOT_FOUND for an unknown worker.
GW_API gw_future *gw_member_lost(gw_scope *s, const gw_worker *workers, int count);

/// Lists the workers of the job, including this worker, by rank.
///
/// out_count: receives the number of workers.
/// Returns: an array that lives as long as |s|; NULL if |s| has failed.
GW_API const gw_worker *gw_rpc_workers(gw_scope *s, int *out_count);

/// Lists the workers of one role, by their names.
///
///     const gw_worker *trainers = gw_rpc_workers_named(s, "trainer%d", &count);
///     gw_rpc_sync_all(s, trainers, count, "train", steps);
///
/// name: %d in it stands for digits.
/// out_count: receives the number of workers, which may be 0.
/// Returns: as gw_rpc_workers.
/// Errors: INVALID for a malformed name.
GW_API const gw_worker *gw_rpc_workers_named(gw_scope *s, const char *name, int *out_count);

/// Returns the word for |kind|, such as "died".
GW_API const char *gw_member_event_name(gw_member_event_kind kind);

#ifdef __cplusplus
}
#endif
#endif
