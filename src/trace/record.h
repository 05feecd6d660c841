// Records: what this process does, in rings of memory that outlive it (layout.h).
//
//     if (trace_is_on(TRACE_COLL)) trace_record(TRACE_COLLECTIVE_ENTERED, agent, id, bytes, name);
//
// Each thread has a ring of its own, without a lock. Without memory for it, or before trace_open, nothing is recorded.
//
// Threads: any.
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include "trace/kinds.h"

#include <stdatomic.h>

// Where the levels of this process are: in the memory that tools write to, or a zero.
extern _Atomic(const _Atomic uint32_t *) trace_levels;

static inline bool trace_is_on(uint32_t levels) {
    const _Atomic uint32_t *at = atomic_load_explicit(&trace_levels, memory_order_relaxed);
    return atomic_load_explicit(at, memory_order_relaxed) & levels;
}

// |agent|: what trace_agent_open has returned; negative: no worker in particular.
void trace_record(trace_kind kind, int agent, uint64_t id, uint64_t value, uint32_t name);
// The same with a text, which is looked up or added.
void trace_record_text(trace_kind kind, int agent, uint64_t id, uint64_t value, const char *text);

// The beginning of a wait: 0 if slow waits are not recorded. And its end: if it has taken TRACE_SLOW_NS, |what| is recorded.
uint64_t trace_wait_begins(void);
void trace_wait_ends(uint64_t begun, int agent, const char *what);

// The id of this thread in the kernel.
int trace_thread_id(void);

// An id that no other work of this process has: for work that one thread begins and ends.
uint64_t trace_unique_id(void);

// The number of |text| among the strings of this process; 0 if there is no room for it.
uint32_t trace_name(const char *text);
// The same of a constant text, such as the name of an operator, which is looked up once.
uint32_t trace_name_of_constant(const char *text);

#endif
