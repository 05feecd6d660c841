// The other hosts of a job, which the launcher reaches through its link (link.h).
//
// Ownership: run.c opens and closes it. Threads: one.
#ifndef GRADWIRE_NODES_H
#define GRADWIRE_NODES_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hosts/heartbeat.h"
#include "hosts/link.h"

typedef struct nodes {
    pid_t pid;               // of the link; 0: the job has one host, or the link has ended
    int fd;                  // -1: the job has one host
    heartbeats *heartbeats;  // of this process and the link
    heartbeat_check link_heartbeat;
    int64_t next_heartbeat_ms;
    char job_id[LINK_JOB_ID_SIZE];  // of all hosts

    // Messages for which the socket had no space, in order.
    link_message *backlog;
    int backlog_count, backlog_capacity;

    int peer;          // of this host's link, in a dynamic job (hosts/roster.h)
    int64_t waits_ms;  // since when it waits for its place in a dynamic job; 0: it does not
    bool job_runs;     // meanwhile
    bool has_met;      // its ranks may start
    bool has_ended;    // the link has ended, or is treated as ended
    bool is_decided;   // how the job ends
    bool
        has_reported_end;  // that this host's part has failed, or has ended well, since all started
    int64_t done_ms;       // when it has ended well, and waits for the other hosts
    bool has_reported_wait;  // that the others are waited for
    int failed_code;  // the exit code of this host's failure, until all hosts agree; 0: no failure
    char failed_why[LINK_TEXT_SIZE];
} nodes;

typedef struct nodes_options {
    const run_options *run;
    int port;
    const char *job_id, *mark;
    int looks_fd;  // to the monitor; -1: there is none
} nodes_options;

bool nodes_open(nodes *n, const nodes_options *o);  // false, errno
void nodes_close(nodes *n);
static inline bool nodes_are_open(const nodes *n) {
    return n->fd >= 0;
}

// Ready when a message can be taken, or one of the backlog sent; fd -1: there will be none.
static inline struct pollfd nodes_poll(const nodes *n) {
    return (struct pollfd){ .fd = n->has_ended ? -1 : n->fd,
                            .events = n->backlog_count ? POLLIN | POLLOUT : POLLIN };
}

// Increments the launcher's heartbeat; to be called at least every HEARTBEAT_MS while this process runs, at
// nodes_deadline_ms: INT64_MAX without a link.
void nodes_send_heartbeat(nodes *n);
int64_t nodes_deadline_ms(const nodes *n);

// Sends a report of this host to the link, now or with nodes_flush. Of LINK_FAILED and LINK_DONE only the first is sent, until
// ranks start again.
void nodes_send(nodes *n, const link_message *m);
void nodes_flush(nodes *n);

// Takes a message of the link; false: none has been received. A link that has ended or does not run counts as a message
// that this host is lost.
bool nodes_take(nodes *n, link_message *out);

#endif
