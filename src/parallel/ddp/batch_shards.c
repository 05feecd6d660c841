// Steps of which each member makes several passes, one for each of its shards of the batch. Gradients
// are added as in a tree whose leaves are all shards of all members, so that the number of members
// changes no bits.
#include "base/mem.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

enum { LEVELS = 31 };

// The passes of a step count in binary: where a bit of their number is 1, a sum of as many shards
// waits for its neighbour.
struct shard_sums {
    int leaf_count;
    int pass;            // of the step, from 0
    gw_tensor *waits[];  // by leaf, then by bit; counted; NULL: no gradient
};

shard_sums *shards_open(const gw_ddp *d) {
    size_t count = (size_t)d->gate.leaf_count * LEVELS;
    shard_sums *sums = mem_calloc(sizeof *sums + count * sizeof *sums->waits);
    if (sums) sums->leaf_count = d->gate.leaf_count;
    return sums;
}

static void forget(shard_sums *sums) {
    for (int i = 0; i < sums->leaf_count * LEVELS; i++) {
        handle_release(sums->waits[i]);
        sums->waits[i] = NULL;
    }
    sums->pass = 0;
}

void shards_free(shard_sums *sums) {
    if (sums) forget(sums);
    mem_free(sums);
}

int shards_per_member(const gw_ddp *d) {
    return d->shards ? d->options.shards / d->stats.world_size : 1;
}

bool shards_is_last(const gw_ddp *d) {
    return !d->shards || d->shards->pass == shards_per_member(d) - 1;
}

gw_tensor *shards_add(gw_scope *s, gw_ddp *d, int i, gw_tensor *gradient) {
    gw_tensor *sum = gradient;
    gw_tensor **waits = &d->shards->waits[i * LEVELS];
    int bit = 0;
    for (; d->shards->pass >> bit & 1; bit++) {
        gw_tensor *left = waits[bit];
        waits[bit] = NULL;
        if (!left) continue;
        sum = sum ? gw_add(s, left, sum) : scope_own(s, handle_retain(left));
        handle_release(left);
    }
    if (!gw_ok(s)) return NULL;
    if (shards_is_last(d)) return handle_retain(sum);
    waits[bit] = handle_retain(sum);
    return NULL;
}

void shards_count_pass(gw_ddp *d) {
    d->shards->pass = shards_is_last(d) ? 0 : d->shards->pass + 1;
}

void shards_reset(gw_ddp *d) {
    if (d->shards) forget(d->shards);
}
