// Flow control: back-pressure of a worker that does not read, or does not answer.
// docs/protocol/calls.md.
//
// A caller waits until its request may be queued. Replies are always queued, but while too many bytes of replies are
// queued, no further call of the same caller is started. Threads: with the loop lock.
#ifndef CALL_FLOW_CONTROL_H
#define CALL_FLOW_CONTROL_H

#include "agent/bodies/context.h"

// Waits with the thread of |s|, if it may wait, until a request of |size| bytes may be queued for
// |to|, at most |until_ns|.
// |counts|: as a call that is out. OVERLOADED; CANCELLED.
gw_status flow_wait_on_loop(agent *a, gw_scope *s, int to, uint64_t size, bool counts,
                            int64_t until_ns, gw_error *error);

// Less may be queued for |rank|, a call to it has ended, or it is lost.
void flow_wake_on_loop(agent *a, int rank);
void flow_close_on_loop(agent *a);

// Whether a call of |rank| may be started.
bool flow_has_capacity_on_loop(agent *a, int rank);

#endif
