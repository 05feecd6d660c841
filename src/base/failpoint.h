// Failpoints: named places where a build for tests can halt a process, so that a test kills it
// there. In the library each is nothing.
//
//     failpoint("before_reply");
//
// The environment variable GW_FAILPOINT="before_reply:3" halts the process when it comes there for
// the third time (":1" may be left out), as GW_FAILPOINT_OUT and GW_FAILPOINT_IN say: it writes one
// byte to the first descriptor and goes on when it can read one from the second. A thread that
// halts with the loop lock halts its whole agent.
//
// Threads: any.
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#ifdef GW_MUTATIONS

#include <stdbool.h>

void failpoint(const char *name);

// For a place that has something to do before it halts: whether it is to halt, and the halting.
bool failpoint_is_due(const char *name);
bool failpoint_is_chosen(const char *name);  // whichever time it is that it is passed
void failpoint_halt(void);

#else
#define failpoint(name) ((void)0)
#endif

#endif
