// Membership: who is there, and what happens to them.
//
// A group is founded by one worker and joined by others, at any time; a worker may leave it, or
// die, and the others go on:
//
//     gw_rpc_init(root, .name = "boss", .job = GW_JOB_CREATE);      // the others: GW_JOB_JOIN
//     gw_watch *w = gw_watch_open(root);
//     while (gw_ok(root)) {
//         gw_member_event e = gw_watch_next(root, w);                         // waits; gw_watch_ready would not
//         if (e.kind == GW_MEMBER_DIED) printf("%s is dead: %s\n", e.worker.name, e.why.text);
//     }
//
// A job of a world size has the same events, but JOINED. A worker that was killed is dead within a
// second, a silent one (stopped, or cut off) within 7 s, or 31 s if nothing was ever heard of it;
// before, it is SUSPECTED, and RECOVERED if it is heard after all. Who was taken for dead stays so:
// it finds itself FENCED, and may join anew, by gw_rpc_init on another scope. Then it is another
// member, with a rank of its own; the same name may be used again, and means the newest member with
// it.
//
// Changes come in one order per worker, and not in the same on all; the epoch counts joins and
// ends, and is the same where the same is known.
//
// Ownership: a watch belongs to its scope, and goes with it. Names in events live as long as the
// agent.
// Threads: as the scope.
#ifndef GRADWIRE_MEMBERSHIP_H
#define GRADWIRE_MEMBERSHIP_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_watch gw_watch;

typedef enum gw_member_event_kind {
    GW_MEMBER_NONE = 0,  // the scope has failed
    GW_MEMBER_JOINED,
    GW_MEMBER_SUSPECTED,  // not heard for some seconds
    GW_MEMBER_RECOVERED,  // heard again
    GW_MEMBER_LEFT,       // by its own will: gw_rpc_leave, gw_rpc_shutdown, or its scope was closed
    GW_MEMBER_DIED
} gw_member_event_kind;

typedef struct gw_member_event {
    gw_member_event_kind kind;
    gw_worker worker;
    gw_error why;    // of LEFT and DIED
    uint64_t epoch;  // after it
    uint64_t
        missed;  // events before it that were dropped, since the watch was not asked: 256 are kept
} gw_member_event;

// Events from now on. gw_rpc_workers tells who is there: asked after the watch was opened, it
// misses nothing; a change in between is in both.
GW_API gw_watch *gw_watch_open(gw_scope *s);

// Waits for the next event, at most until the deadline of |s|. Fails with TIMEOUT; FENCED if it is
// this worker that is out;
// WRONG_STATE after shutdown.
GW_API gw_member_event gw_watch_next(gw_scope *s, gw_watch *w);

// Whether gw_watch_next would not wait.
GW_API bool gw_watch_ready(gw_watch *w);

// A future that fails, with DISCONNECTED and the name, as soon as one of |count| workers is there no
// more: it has died, or left. It is how what several workers do together ends when one of them is
// lost, instead of at a deadline: a body that answers when all have come returns
//
//     gw_future *either[] = { self->all_came, self->lost };   // gw_member_lost(own, workers, count)
//     gw_future *first = gw_collect_first(s, either, 2);              // what the method returns
//
// and gw_wait_any waits for futures and members at once. NOT_FOUND for a worker that is not known.
GW_API gw_future *gw_member_lost(gw_scope *s, const gw_worker *workers, int count);

// Those who are there, this worker too, by rank; *out_count of them. Lives as long as |s|; NULL if
// |s| has failed.
GW_API const gw_worker *gw_rpc_workers(gw_scope *s, int *out_count);

// Those of them with one role, by their names, in which %d stands for digits:
//
//     const gw_worker *trainers = gw_rpc_workers_named(s, "trainer%d", &count);
//     gw_rpc_sync_all(s, trainers, count, "train", steps);
//
// May be none. INVALID for what is no such name.
GW_API const gw_worker *gw_rpc_workers_named(gw_scope *s, const char *name, int *out_count);

// The word for |kind|, "died".
GW_API const char *gw_member_event_name(gw_member_event_kind kind);

#ifdef __cplusplus
}
#endif
#endif
