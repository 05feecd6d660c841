// The connections on which the workers of the job report to the launcher, and the launcher answers:
// docs/protocol/launcher.md.
//
// The kernel keeps the data that a worker has sent until the launcher reads it, also after the worker has ended. So
// nothing is lost while the launcher is late or stopped, and a launcher that reads after a process has ended
// receives everything that the process has reported.
//
// Ownership: run.c opens and closes it. Threads: one.
#ifndef GRADWIRE_CHANNELS_H
#define GRADWIRE_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHANNEL_LINE_BYTES = 2048 };

// One worker's.
typedef struct channel {
    int fd;
    pid_t pid;             // of the process that has connected, according to the kernel
    uint64_t incarnation;  // of its worker, once it has reported one
    char in[CHANNEL_LINE_BYTES];
    size_t in_size;
    size_t line_size;  // of the line at the beginning of |in| that was returned last; 0: none
} channel;

typedef struct channels {
    int poll_fd;  // an epoll set, readable when there is something to take; -1: no channels
    int listen_fd;
    bool
        is_full;  // no descriptors are left: pending connections are accepted once a channel closes
    channel **list;
    int count, capacity;
    channel *current;  // the channel whose lines are returned
} channels;

bool channels_open(channels *c, const char *mark);  // false: workers cannot report
void channels_close(channels *c);

// A line that a worker has sent, valid until the next call; NULL: no line has been received.
const char *channels_take(channels *c, channel **out_from);

// Sends |line| to one worker. If the socket buffer of a worker that does not read is full, the line is dropped.
void channel_send(const channel *to, const char *line);

#endif
