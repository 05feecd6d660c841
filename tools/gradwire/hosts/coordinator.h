// What host 0 decides for all hosts of a job: how it ends, which ranks start again, and whether it continues without a host that
// is lost (docs/protocol/launcher.md, LAUN-24 to LAUN-32). The rules, without any process, connection or clock.
//
//     coordinator_take(c, &report, now_ms);
//     for (link_message decision; coordinator_next(c, &decision);) send_to_all(&decision);
//
// Ownership: the link of host 0 opens and closes it. Threads: one at a time.
#ifndef GRADWIRE_COORDINATOR_H
#define GRADWIRE_COORDINATOR_H

#include "hosts/message.h"
#include "options/run_options.h"

typedef struct coordinator coordinator;

coordinator *coordinator_open(const run_options *o);  // NULL: no memory
void coordinator_close(coordinator *c);

// Takes a report of host |m->node|, or LINK_LOST for a host that the links have lost. All decisions before it must have been
// taken.
void coordinator_take(coordinator *c, const link_message *m, int64_t now_ms);

// The next decision for all hosts, which act on decisions in this order; false: none now.
bool coordinator_next(coordinator *c, link_message *out);

// Whether a message makes all hosts end: no decision but a signal follows.
bool coordinator_ends_job(link_kind kind);

#endif
