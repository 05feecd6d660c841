// The connections on which the workers of the job report to the launcher, and it answers:
// docs/protocol/launcher.md.
//
// The kernel keeps what a worker has sent until the launcher reads it, also after the worker's end.
// So nothing is lost while the launcher is late or stopped, and whoever reads after it has waited
// for a process has everything that the process has reported.
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
    pid_t pid;             // of the process that has connected, as the kernel says
    uint64_t incarnation;  // of its worker, once it has reported one
    char in[CHANNEL_LINE_BYTES];
    size_t in_size;
    size_t line_size;  // of the line at the beginning of |in| that was given out; 0: none
} channel;

typedef struct channels {
    int poll_fd;  // an epoll set, readable when there is something to take; -1: there are none
    int listen_fd;
    bool is_full;  // no descriptors for more: those that wait are taken once another one closes
    channel **list;
    int count, capacity;
    channel *current;  // whose lines are given out
} channels;

bool channels_open(channels *c, const char *mark);  // false: workers cannot report
void channels_close(channels *c);

// A line that a worker has sent, until the next call; NULL: there is none now.
const char *channels_take(channels *c, channel **out_from);

// To one worker. A worker that does not read has a full buffer, and does not get it.
void channel_send(const channel *to, const char *line);

#endif
