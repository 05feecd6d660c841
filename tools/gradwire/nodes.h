// The other hosts of a job, as its launcher knows them: through its link (link.h).
//
// Ownership: run.c opens and closes it. Threads: one.
#ifndef GRADWIRE_NODES_H
#define GRADWIRE_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "beats.h"
#include "link.h"

typedef struct nodes {
    pid_t pid;     // of the link; 0: this host is alone, or the link has ended
    int fd;        // -1: this host is alone
    beats *beats;  // of this process and the link
    pulse link_pulse;
    int64_t next_beat_ms;
    char job_id[LINK_JOB_ID_SIZE];  // of all hosts

    bool has_met;     // all hosts are there
    bool has_ended;   // the link, or it is taken for ended
    bool is_decided;  // how the job ends
    bool has_told;    // that this host's part has failed, or has ended well
    bool has_said;    // that the others are waited for
    int failed_code;  // what this host's part has failed with, until all agree; 0: it has not
    char failed_why[LINK_TEXT_SIZE];
} nodes;

bool nodes_open(nodes *n, const run_options *run, int port, const char *job_id);  // false, errno
void nodes_close(nodes *n);
static inline bool nodes_are_there(const nodes *n) {
    return n->fd >= 0;
}

// Readable when there is something to take; -1: there will be nothing.
static inline int nodes_poll_fd(const nodes *n) {
    return n->has_ended ? -1 : n->fd;
}

// Shows the link that this process runs; to be called at least every BEAT_MS while it does, which
// nodes_deadline_ms says: INT64_MAX where there is no link.
void nodes_beat(nodes *n);
int64_t nodes_deadline_ms(const nodes *n);

// What this host has to say. Of failures, and of being done, only the first counts.
void nodes_tell(nodes *n, link_kind kind, int number, const char *text);

// What the others have said; false: nothing more for now. A link that has ended or does not run says
// that this host is lost.
bool nodes_take(nodes *n, link_message *out);

#endif
