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
} joining;

joining join_begin(agent *a, const join_options *options);

// The store of the job: a file, that of |a| itself if it |hosts|, or that at the master's address.
gw_status join_open_store(joining *j, bool hosts, gw_error *error);

// Sets |key| to |value|; *out_set tells, and |out_found| gets what was there. Fails if |value| has.
gw_status join_set(joining *j, const char *key, const bytes *value, bool *out_set, bytes *out_found,
                   gw_error *error);

// The key `job`: u32 world size, 0 for a group, and u32 version.
gw_status join_read_job(const bytes *value, uint32_t *out_world_size, gw_error *error);
// Whether nobody is in the job, or the group, whose file it is.
bool join_is_over(joining *j);

void join_write_job(bytes *value, uint32_t world_size);

#endif
