// What ranks print, all of them together, on its way to our own standard output and error.
#ifndef GRADWIRE_FLOW_H
#define GRADWIRE_FLOW_H

#include <poll.h>
#include <stdbool.h>

#include "job.h"

// How many places flow_poll fills.
int flow_poll_count(const job *j);
void flow_poll(const job *j, struct pollfd *out);

// Reads what |ready| says is there, as far as readers of our own output keep up.
void flow_read(job *j, const struct pollfd *ready);

// Writes what can be written now.
void flow_write(job *j);

// No process is left that could write: reads what is still there.
void flow_finish(job *j);
bool flow_is_done(const job *j);

#endif
