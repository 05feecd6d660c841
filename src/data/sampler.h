// Shared by the files of this room: samplers.
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include "data/dataset.h"

struct gw_sampler {
    gw_handle handle;
    int64_t total;               // items of the dataset
    int64_t num_replicas, rank;  // 1 and 0: not distributed
    bool shuffle, drop_last;
    uint64_t seed;
    int64_t epoch;
};

bool sampler_check(gw_scope *s, const gw_sampler *p, const char *function);

// One that is not distributed, owned by |s|; or poison.
gw_sampler *sampler_make(gw_scope *s, const gw_dataset *d, bool shuffle, uint64_t seed);

// The indices of epoch |epoch|, gw_sampler_count of them. False with |s| failed.
bool sampler_draw(gw_scope *s, const gw_sampler *p, int64_t epoch, int64_t *out);

// The part that |p|'s rank has of |order|, which has all items.
void sampler_share(const gw_sampler *p, const int64_t *order, int64_t *out);

// The key of the random numbers of an epoch.
uint64_t sampler_key(uint64_t seed, int64_t epoch);

#endif
