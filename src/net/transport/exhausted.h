// What the system gives this process no more of: descriptors, memory for sockets. Its peers see only connections that
// break, so it is this process that names the limit.
//
// Threads: any.
#ifndef NET_TRANSPORT_EXHAUSTED_H
#define NET_TRANSPORT_EXHAUSTED_H

#include <stdbool.h>

// Whether |error|, an errno, says that there are no more of them.
bool exhausted_is(int error);
// A line of log, now and then: "a connection is refused: Too many open files (ulimit -n is 14)".
void exhausted_say(const char *what, int error);

// The errno of a lack that has been said again and again for |seconds| until now; 0: none has.
int exhausted_for(int seconds);

#endif
