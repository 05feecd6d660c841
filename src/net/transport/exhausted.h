// The error text for exhausted system resources: descriptors, memory for sockets. Peers see only connections that
// break, so this process logs the limit.
//
// Threads: any.
#ifndef NET_TRANSPORT_EXHAUSTED_H
#define NET_TRANSPORT_EXHAUSTED_H

#include <stdbool.h>

// Whether |error|, an errno, reports that a resource is exhausted.
bool exhausted_is(int error);
// Logs at most once in a while: "a connection is refused: Too many open files (ulimit -n is 14)".
void exhausted_log(const char *what, int error);

// The errno of a lack that has been logged again and again for LACKS_S until now; 0: none has.
enum { LACKS_S = 5 };
int exhausted_for_long(void);

#endif
