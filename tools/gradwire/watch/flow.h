// The output of all ranks on its way to the launcher's standard output and error.
#ifndef GRADWIRE_FLOW_H
#define GRADWIRE_FLOW_H

#include <poll.h>
#include <stdbool.h>

#include "job/job.h"

// The number of entries that flow_poll fills.
int flow_poll_count(const job *j);
void flow_poll(const job *j, struct pollfd *out);

// Reads from the descriptors that are ready, as far as the readers of the launcher's output keep up.
void flow_read(job *j, const struct pollfd *ready);

// Writes what can be written now.
void flow_write(job *j);

// To be called when no process is left that could write: reads the rest.
void flow_finish(job *j);
bool flow_is_done(const job *j);

#endif
