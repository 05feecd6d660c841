// Membership: the workers of the job, and events of these workers.
//
// One worker creates an elastic job. Other workers can join the job at any time. If a worker leaves or dies, the other
// workers continue:
//
//     gw_rpc_init(root, .name = "boss", .job = GW_JOB_CREATE);      // other workers use GW_JOB_JOIN
//     gw_watch *w = gw_watch_open(root);
//     while (gw_ok(root)) {
//         gw_member_event e = gw_watch_next(root, w);                         // blocks; gw_watch_ready does not
//         if (e.kind == GW_MEMBER_DIED) printf("%s is dead: %s\n", e.worker.name, e.why.text);
//     }
//
// In a job of fixed world size there are no JOINED events. A worker that was killed is declared dead within a second. A
// silent worker (stopped, or cut off) is declared dead within 7 s, or within 31 s if this worker never received
// anything from it. Before that, the silent worker is SUSPECTED. If something is received from it again, it is
// RECOVERED.
//
// A worker that was declared dead cannot return to the job as the same member; it gets the error FENCED. It may call
// gw_rpc_init in another root scope, and joins as a new member with a new rank. If it uses its old name again, the name
// stands for the new member.
//
// Workers may receive events in different orders. The epoch is the number of members that have joined plus the number
// of members that have left or died. So two workers that have received the same events have the same epoch.
//
// Errors, of all functions: WRONG_STATE before this worker has joined a job, and after shutdown; FENCED if the other
// workers continue without this worker.
// Ownership: a watch belongs to its scope, and closes with the scope. Names in events live as long as the agent.
// Threads: one thread at a time, as for the scope.
#ifndef GRADWIRE_MEMBERSHIP_H
#define GRADWIRE_MEMBERSHIP_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A queue of events of members, opened by gw_watch_open.
typedef struct gw_watch gw_watch;

/// The kind of an event: what happened to a member.
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
    gw_error why;    ///< for LEFT and DIED: the reason
    uint64_t epoch;  ///< the epoch after the event
    /// The number of earlier events that were dropped. The queue holds 256 events.
    uint64_t missed;
} gw_member_event;

/// Opens a queue of all events after this call. To miss no worker, call gw_rpc_workers after gw_watch_open: a change
/// between the two calls is in the list and in the queue.
/// Returns: the queue.
GW_API gw_watch *gw_watch_open(gw_scope *s);

/// Removes the next event from the queue. Blocks until there is an event, at most until the deadline of |s|.
/// Returns: the event.
/// Errors: TIMEOUT; DISCONNECTED if no event can follow, because in a job of fixed world size all other workers are
/// gone.
GW_API gw_member_event gw_watch_next(gw_scope *s, gw_watch *w);

/// Returns whether gw_watch_next would not block.
GW_API bool gw_watch_ready(gw_watch *w);

/// Makes a future that fails as soon as one of |count| workers has died or left, with DISCONNECTED and the name of the
/// worker. A program that waits for this future and another future does not wait until the deadline when a worker is
/// lost. For example, a method shall reply when all workers have called it, and shall fail when a worker is lost. The
/// method returns |first|:
///
///     gw_future *either[] = { self->all_arrived, self->lost };  // gw_member_lost(own, workers, count)
///     gw_future *first = gw_collect_first(s, either, 2);        // what the method returns
///
/// gw_wait_any can wait for such a future and other futures together.
///
/// workers: if the list is empty, or has only this worker, the future does not resolve before gw_rpc_shutdown.
/// Returns: the future.
/// Errors: NOT_FOUND for an unknown worker.
GW_API gw_future *gw_member_lost(gw_scope *s, const gw_worker *workers, int count);

/// Lists the workers of the job in the order of ranks, including this worker.
///
/// out_count: receives the number of workers.
/// Returns: an array that lives as long as |s|; NULL if |s| has failed.
GW_API const gw_worker *gw_rpc_workers(gw_scope *s, int *out_count);

/// Lists the workers whose names match a pattern, for example the workers of one role.
///
///     const gw_worker *trainers = gw_rpc_workers_named(s, "trainer%d", &count);
///     gw_rpc_sync_all(s, trainers, count, "train", steps);
///
/// name: a pattern, in which %d stands for digits.
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
