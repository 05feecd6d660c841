// What both ways of joining have in common: a job of known size (join.c), a group (group.c).
//
// Threads: with the loop lock.
#ifndef AGENT_JOIN_H
#define AGENT_JOIN_H

#include "agent/agent.h"

typedef struct joining {
    agent *agent;
    const join_options *options;
    store *store;
    int64_t until_ns;
    int64_t line_ns;  // when it is said next for what this worker waits
    bool is_told;     // by another worker that it need not wait
    bool has_rank;    // in the store
} joining;

joining join_begin(agent *a, const join_options *options);

// Where they meet, for sentences.
const char *join_place(const joining *j);

// Every wait is one of pieces, at most to |line_ns|: whether |status| is only the end of such a
// piece, and not of the wait's time, nor a signal's doing. Then it is time for a line.
bool join_is_line_due(joining *j, gw_status status);

// The store of the job: a file, that of |a| itself if it |hosts|, or that at the master's address.
gw_status join_open_store(joining *j, bool hosts, gw_error *error);

// Sets |key| to |value|; *out_set tells, and |out_found| gets what was there. Fails if |value| has.
gw_status join_set(joining *j, const char *key, const bytes *value, bool *out_set, bytes *out_found,
                   gw_error *error);

// The same for the key that registers this worker with the host of the store (STORE-7).
gw_status join_register(joining *j, const char *key, const bytes *value, bool *out_set,
                        bytes *out_found, gw_error *error);

// The key `job`: u32 world size, 0 for a group, u32 version, u32 flags: whether its workers were
// told that connections need no encryption, which all or none must be; and which job it is. MISMATCH.
gw_status join_read_job(const joining *j, const bytes *value, uint32_t *out_world_size,
                        gw_error *error);
// Sets it, if nobody has; |out_world_size| gets that of the job that is there then.
gw_status join_set_job(joining *j, uint32_t world_size, bool *out_set, uint32_t *out_world_size,
                       gw_error *error);
// Whether nobody is in the job, or the group, whose file it is.
bool join_is_over(joining *j);

#endif
