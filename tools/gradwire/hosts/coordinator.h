// What host 0 decides for all hosts of a job: how it ends, which ranks start again, whether it continues without a host, and which
// hosts take part (docs/protocol/launcher.md, LAUN-24 to LAUN-40). The rules, without any process, connection or clock.
//
//     coordinator_take(c, &report, now_ms);
//     for (link_message decision; coordinator_next(c, &decision);) send_to_all(&decision);
//
// Ownership: the link of host 0 opens and closes it. Threads: one at a time.
#ifndef GRADWIRE_COORDINATOR_H
#define GRADWIRE_COORDINATOR_H

#include "hosts/message.h"
#include "hosts/roster.h"
#include "options/run_options.h"

typedef struct coordinator coordinator;

coordinator *coordinator_open(const run_options *o);  // NULL: no memory
void coordinator_close(coordinator *c);

// Takes a report of host |m->node|, or LINK_LOST or LINK_LEFT for a host that the links have lost, or that has left them. If
// |m->node| is NO_NODE, peer |m->number| is not in the job. All decisions before it must have been taken.
void coordinator_take(coordinator *c, const link_message *m, int64_t now_ms);

// To be called about twice a second in a dynamic job: decides what only time can decide.
void coordinator_tick(coordinator *c, int64_t now_ms);

// The next decision for all hosts, which act on decisions in this order; false: none now. It is for the hosts that are then in the
// job, and if it ends the job, for the spares as well.
bool coordinator_next(coordinator *c, link_message *out);
const roster *coordinator_hosts(const coordinator *c);
bool coordinator_has_started(const coordinator *c);  // ranks

// Whether a message makes all hosts end: no decision but a signal follows.
bool coordinator_ends_job(link_kind kind);

#endif
