// What a served call awaits, as a table. docs/protocol/calls.md, "States of a served call".
#include "call/flow_control.h"
#include "call/server.h"

#include <assert.h>

// ---- Actions ----

static void nothing(served_call *s) {
    (void)s;
}

static void defer(served_call *s) {
    flow_defer_on_loop(s, false);
}

static void defer_admitted(served_call *s) {
    flow_defer_on_loop(s, true);
}

static void return_turn(served_call *s) {
    turn_give_on_loop(s->object->turn);
    flow_defer_on_loop(s, true);
}

// What it awaits may come about by its end, and must not find it.
static void stop_awaiting(served_call *s) {
    continuation_cancel_on_loop(&s->target_made);
    if (s->incoming) incoming_abandon_on_loop(s->incoming);
}

static void leave_deferred(served_call *s) {
    list_remove(&s->deferred_link);
}

static void leave_turn(served_call *s) {
    turn_cancel_on_loop(&s->turn);
}

static void leave_schedule(served_call *s) {
    if (s->object) turn_end_on_loop(&s->held);
}

// ---- The table ----

typedef struct rule {
    served_call_state from;
    served_call_event event;
    served_call_state to;
    void (*action)(served_call *s);
    const char *why;
} rule;

// clang-format off
static const rule rules[] = {
    { SERVED_ARGUMENTS, SERVED_READY,     SERVED_ORDER,     served_call_enter_queue_on_loop, "calls of one order start in the order in which they came (CALL-6)" },
    { SERVED_ARGUMENTS, SERVED_BLOCKED,   SERVED_DEFERRED,  defer,                           "its reply would only be queued, too (FLOW-2)" },

    { SERVED_ORDER,     SERVED_ADMITTED,  SERVED_SCHEDULED, served_call_schedule_on_loop,    "those before it have started, or keep their order where it goes" },
    { SERVED_ORDER,     SERVED_TO_OBJECT, SERVED_TURN,      served_call_take_turn_on_loop,   "methods of an object run one at a time" },
    { SERVED_ORDER,     SERVED_BLOCKED,   SERVED_DEFERRED,  defer_admitted,                  "its caller has stopped reading since it came" },

    { SERVED_TURN,      SERVED_GRANTED,   SERVED_SCHEDULED, served_call_schedule_on_loop,    "the object is its own until its body ends" },
    { SERVED_TURN,      SERVED_BLOCKED,   SERVED_DEFERRED,  return_turn,                     "a turn is not kept from others while flow control holds it up" },

    { SERVED_SCHEDULED, SERVED_STARTED,   SERVED_RUNNING,   served_call_start_on_loop,       "its arguments do not count as queued any more" },
    { SERVED_SCHEDULED, SERVED_BLOCKED,   SERVED_DEFERRED,  defer_admitted,                  "no body is started whose reply would only be queued" },

    { SERVED_DEFERRED,  SERVED_READY,     SERVED_ORDER,     served_call_enter_queue_on_loop, "replies have gone out; it has not been in its queue yet" },
    { SERVED_DEFERRED,  SERVED_ADMITTED,  SERVED_SCHEDULED, served_call_schedule_on_loop,    "replies have gone out; its queue had let it go" },
    { SERVED_DEFERRED,  SERVED_TO_OBJECT, SERVED_TURN,      served_call_take_turn_on_loop,   "replies have gone out; its queue had let it go" },
    { SERVED_DEFERRED,  SERVED_BLOCKED,   SERVED_DEFERRED,  defer_admitted,                  "others that were deferred have filled the queue again" },

    { SERVED_RUNNING,   SERVED_RETURNED,  SERVED_RESULT,    nothing,                         "the reply goes out when the future resolves; no thread is held" },
    { SERVED_RUNNING,   SERVED_REPLIED,   SERVED_ENDED,     nothing,                         "the body has returned its result" },
    { SERVED_RESULT,    SERVED_REPLIED,   SERVED_ENDED,     nothing,                         "the future has resolved, or is awaited no longer" },

    { SERVED_ARGUMENTS, SERVED_REFUSED,   SERVED_ENDED,     stop_awaiting,                   "an argument failed, it was cancelled, or its deadline passed" },
    { SERVED_ORDER,     SERVED_REFUSED,   SERVED_ENDED,     nothing,                         "there is no such method or no memory, or it was cancelled" },
    { SERVED_DEFERRED,  SERVED_REFUSED,   SERVED_ENDED,     leave_deferred,                  "it was cancelled" },
    { SERVED_TURN,      SERVED_REFUSED,   SERVED_ENDED,     leave_turn,                      "it was cancelled" },
    { SERVED_SCHEDULED, SERVED_REFUSED,   SERVED_ENDED,     leave_schedule,                  "it was cancelled before a thread came to it" },
};
// clang-format on

void served_call_apply_on_loop(served_call *s, served_call_event event) {
    const rule *r = rules, *end = rules + sizeof rules / sizeof rules[0];
    while (r < end && (r->from != s->state || r->event != event)) r++;
    assert(r < end);  // all events are local
    s->state = r->to;
    r->action(s);
}
