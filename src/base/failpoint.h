// Failpoints: named places where a test build can halt a process, so that a test kills it
// there. In the library they are empty.
//
//     failpoint("before_reply");
//
// The environment variable GW_FAILPOINT="before_reply:3" halts the process when it reaches the place for the third time
// (":1" may be omitted). The process writes one byte to the descriptor GW_FAILPOINT_OUT, and continues when it can read
// a byte from GW_FAILPOINT_IN. A thread that halts with the loop lock halts its whole agent.
//
// Threads: any.
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#ifdef GW_MUTATIONS

#include <stdbool.h>

void failpoint(const char *name);

// For a place that acts before it halts: whether it is to halt, and the halt itself.
bool failpoint_is_due(const char *name);
bool failpoint_is_chosen(const char *name);  // whatever the number of times it is passed
void failpoint_halt(void);

#else
#define failpoint(name) ((void)0)
#endif

#endif
