// Whether this is the process that opened the agent, or a child that fork made of it: a child has none of the agent's
// threads, and its connections are the parent's.
//
// Threads: any.
#ifndef AGENT_SETTINGS_PROCESS_FORK_H
#define AGENT_SETTINGS_PROCESS_FORK_H

#include <stdbool.h>
#include <stdint.h>

// A page that is zero in children; NULL where the kernel has no such pages: forks are not detected then.
typedef const volatile uint8_t *process_fork_mark;

process_fork_mark process_fork_mark_open(void);
void process_fork_mark_close(process_fork_mark m);

// Ends this process, a child in which the body of |function| has returned: the answer is the
// parent's to give.
_Noreturn void process_fork_end(const char *function);

static inline bool is_process_fork(process_fork_mark m) {
    return m && !*m;
}

#endif
