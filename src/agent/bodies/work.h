// Work: the calls that have been made for a call that is served, so that they can be cancelled with
// it.
//
// Ownership: counted by the context of the call and by continuations that run for it later. Threads: with the loop lock,
// but for |cancelled|, which any thread may read.
#ifndef AGENT_BODIES_WORK_H
#define AGENT_BODIES_WORK_H

#include "base/list.h"
#include <stdatomic.h>
#include <stdint.h>

typedef enum cancel_reason {
    NOT_CANCELLED,
    CANCELLED_BY_CALLER,
    CANCELLED_CALLER_LOST,
    CANCELLED_BY_LEAVING
} cancel_reason;

// A call that is out, while it is part of a work.
typedef struct work_item {
    list_node link;
    void (*cancel)(struct work_item *item);
} work_item;

typedef struct work {
    uint32_t count;
    _Atomic uint8_t cancelled;  // a cancel_reason
    list_node items;            // of work_item
} work;

work *work_open(void);  // one count; NULL without memory
work *work_retain_on_loop(work *w);
void work_release_on_loop(work *w);  // NULL is fine
void work_cancel_on_loop(work *w, cancel_reason reason);

#endif
