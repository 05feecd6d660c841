// The store at which workers meet, for both ways of joining: a job of known size (join.c), a group (group.c).
//
// Threads: with the loop lock.
#ifndef AGENT_ADMISSION_JOIN_STORE_H
#define AGENT_ADMISSION_JOIN_STORE_H

#include "agent/state/agent.h"

typedef struct joining {
    agent *agent;
    const join_options *options;
    store *store;
    int64_t until_ns;
    int64_t line_ns;         // when a line next states which worker this one waits for
    bool is_ended_by_other;  // another worker has set a key that ends the joining
    bool has_rank;           // in the store
} joining;

// How long to wait for what other workers may be about to do.
#define JOIN_GRACE_NS INT64_C(500000000)

joining join_begin(agent *a, const join_options *options);

// Where the workers meet, for error texts.
const char *join_place(const joining *j);

// Every wait is divided into pieces that last at most to |line_ns|: whether |status| is the end of such a piece, and
// neither the end of the whole wait nor caused by a signal. Then a line is due.
bool join_is_line_due(joining *j, gw_status status);
int64_t join_piece_end_ns(const joining *j);

// The store of the job: a file, that of |a| itself if it |hosts|, or that at the master's address.
gw_status join_open_store(joining *j, bool hosts, gw_error *error);

// Sets |key| to |value| if it is absent; *out_set is whether it was, and |out_found| gets an older value. Fails if
// |value| has failed. |registers|: this worker, with the host of the store (STORE-7).
gw_status join_set(joining *j, const char *key, const bytes *value, bool registers, bool *out_set,
                   bytes *out_found, gw_error *error);

// The keys of a join request, "join", and of its answer, "admitted".
enum { JOIN_KEY_MAX = 32 };
void join_key(char key[JOIN_KEY_MAX], const char *what, uint64_t incarnation);

// Reads the key `job`: u32 world size, 0 for a group, u32 version, u32 flags (whether its workers use connections without
// encryption, the same for all), text id. MISMATCH.
gw_status join_read_job(const joining *j, const bytes *value, uint32_t *out_world_size,
                        gw_error *error);
// Sets the key `job` if it is absent; |out_world_size| gets that of the key's value.
gw_status join_set_job(joining *j, uint32_t world_size, bool *out_set, uint32_t *out_world_size,
                       gw_error *error);
// The same; *out_found is the value, set by this worker or another one.
gw_status join_find_job(joining *j, uint32_t world_size, bool *out_set, bytes *out_found,
                        gw_error *error);
// Whether the workers that meet there are of this worker's job, if both have an id of their job. MISMATCH.
gw_status join_check_id(const joining *j, const bytes *value, gw_error *error);
// Whether the job, or the group, of the file has no worker any more.
bool join_is_over(joining *j);

#endif
