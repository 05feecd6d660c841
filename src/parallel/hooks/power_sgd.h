// What the files of PowerSGD share: the memory of a member, and one exchange of a bucket.
//
// Ownership: a gw_power_sgd is a handle; each exchange under way has a count. Threads: the memory changes with the
// loop lock held.
#ifndef PARALLEL_HOOKS_POWER_SGD_H
#define PARALLEL_HOOKS_POWER_SGD_H

#include "parallel/ddp/ddp.h"
#include "parallel/hooks/low_rank.h"
#include <gradwire/comm_hook.h>

// Of a matrix: by the leaf that it is the gradient of, or the first of a bucket that is one square.
typedef struct power_sgd_memory {
    gw_tensor *error, *q;  // counted, flat; NULL: none
    uint64_t leaves;       // the hash of those that it is of; 0: it was loaded
    bool is_used;          // by an exchange under way; another pass does without
} power_sgd_memory;

struct gw_power_sgd {
    gw_handle handle;
    gw_power_sgd_options options;
    // |count| normal numbers to begin with; tests give their own.
    gw_tensor *(*draw)(gw_scope *s, const gw_power_sgd *p, int64_t pass, int bucket, gw_dtype dtype,
                       int64_t count);

    const gw_ddp *set_for;  // whose hook it is the context of
    const gw_ddp *ddp;      // set by the first pass; the same from then on
    int64_t earlier;        // passes before those of this job
    gw_power_sgd_stats stats;
    power_sgd_memory *memories;  // by leaf
    int memory_count;
};

// Whether it is |d|'s context from here on: not if it is another one's.
bool power_sgd_claim(gw_power_sgd *p, const gw_ddp *d);
bool power_sgd_is_usable(gw_scope *s, const char *function, const gw_power_sgd *p);
// In the next generation of the group all have the last Q of one member; errors stay the members' own,
// and a member that is behind has none: gw_hook_save, gw_hook_load.
gw_map *power_sgd_save(gw_scope *s, void *power_sgd);
void power_sgd_load(gw_scope *s, void *power_sgd, gw_map *state, bool is_behind);
// Which of the program's passes |b| is of, from 0.
int64_t power_sgd_pass_of(const gw_power_sgd *p, const gw_bucket *b);
void power_sgd_count(gw_power_sgd *p, const gw_bucket *b, int64_t before, int64_t after);
// The memory of |leaf|, for an exchange that then has it to itself; NULL: another pass has it, or |s| has failed. A
// memory that does not fit |leaves| and |x| is discarded.
power_sgd_memory *power_sgd_memory_take(gw_scope *s, gw_power_sgd *p, const gw_ddp *d, int leaf,
                                        uint64_t leaves, const low_rank *x);
// Gives it back with a new error and Q, NULL: as they were.
void power_sgd_memory_give(const gw_ddp *d, power_sgd_memory *m, gw_tensor *error, gw_tensor *q);

#endif
