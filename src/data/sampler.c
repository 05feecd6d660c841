// Samplers: the order in which items are read, and the share of each member.
#include "data/sampler.h"

#include "base/mem.h"
#include "tensor/tensor.h"

#include <string.h>

static void destroy(gw_handle *h) {
    mem_give(h, sizeof(gw_sampler));
}

static const handle_class sampler_class = { .name = "sampler", .destroy = destroy };

static gw_sampler poison = { .handle = { &sampler_class, HANDLE_IMMORTAL }, .num_replicas = 1 };

bool sampler_check(gw_scope *s, const gw_sampler *p, const char *function) {
    if (gw_ok(s) && !p) scope_fail(s, GW_INVALID, "%s: no sampler", function);
    if (gw_ok(s) && p == &poison)
        scope_fail(s, GW_INVALID, "%s: the sampler could not be made", function);
    return gw_ok(s);
}

// ---- Making -------------------------------------------------------------------------------------
gw_sampler *sampler_make(gw_scope *s, const gw_dataset *d, bool shuffle, uint64_t seed) {
    gw_sampler *p = mem_take(sizeof *p);
    if (!p) {
        scope_fail(s, GW_NO_MEMORY, "%s: no memory for a sampler", d->name);
        return &poison;
    }
    *p = (gw_sampler){ .total = d->count, .num_replicas = 1, .shuffle = shuffle, .seed = seed };
    handle_init(&p->handle, &sampler_class);
    return scope_own(s, p) ? p : &poison;
}

gw_sampler *gw_sequential_sampler(gw_scope *s, gw_dataset *d) {
    if (!dataset_check(s, d, "gw_sequential_sampler")) return &poison;
    return sampler_make(s, d, false, 0);
}

gw_sampler *gw_random_sampler(gw_scope *s, gw_dataset *d, uint64_t seed) {
    if (!dataset_check(s, d, "gw_random_sampler")) return &poison;
    return sampler_make(s, d, true, seed);
}

gw_sampler *gw_distributed_sampler_with(gw_scope *s, gw_dataset *d,
                                        gw_distributed_sampler_options o) {
    if (!dataset_check(s, d, "gw_distributed_sampler")) return &poison;
    if (o.num_replicas < 1)
        scope_fail(s, GW_INVALID, "gw_distributed_sampler: num_replicas must be at least 1");
    else if (o.rank < 0 || o.rank >= o.num_replicas)
        scope_fail(s, GW_INVALID, "gw_distributed_sampler: rank must be 0 to %lld",
                   (long long)o.num_replicas - 1);
    gw_sampler *p = gw_ok(s) ? sampler_make(s, d, o.shuffle, o.seed) : &poison;
    if (p == &poison) return p;
    p->num_replicas = o.num_replicas;
    p->rank = o.rank;
    p->drop_last = o.drop_last;
    return p;
}

// ---- Drawing ------------------------------------------------------------------------------------
void gw_sampler_set_epoch(gw_scope *s, gw_sampler *p, int64_t epoch) {
    if (!sampler_check(s, p, "gw_sampler_set_epoch")) return;
    if (epoch < 0)
        scope_fail(s, GW_INVALID,
                   "gw_sampler_set_epoch: the epoch is %lld, but must not be negative",
                   (long long)epoch);
    else
        p->epoch = epoch;
}

int64_t gw_sampler_epoch(const gw_sampler *p) {
    return p ? p->epoch : 0;
}

int64_t gw_sampler_count(const gw_sampler *p) {
    if (!p) return 0;
    return p->total / p->num_replicas + (p->total % p->num_replicas != 0 && !p->drop_last);
}

void sampler_share(const gw_sampler *p, const int64_t *order, int64_t *out) {
    int64_t count = gw_sampler_count(p);
    for (int64_t i = 0; i < count; i++) out[i] = order[(p->rank + i * p->num_replicas) % p->total];
}

uint64_t sampler_key(uint64_t seed, int64_t epoch) {
    generator g = { .key = seed };
    return generator_split(&g, (uint64_t)epoch);
}

bool sampler_draw(gw_scope *s, const gw_sampler *p, int64_t epoch, int64_t *out) {
    gw_scope *t = gw_scope_open(s);
    gw_seed(t, sampler_key(p->seed, epoch));
    gw_tensor *order =
        p->shuffle ? gw_randperm(t, p->total) : gw_arange(t, GW_I64, 0, (double)p->total, 1);
    if (gw_ok(t) && p->total) sampler_share(p, gw_data(order), out);
    gw_scope_close_up(t);
    return gw_ok(s);
}

gw_tensor *gw_sampler_indices(gw_scope *s, gw_sampler *p) {
    if (!sampler_check(s, p, "gw_sampler_indices")) return tensor_poison_of(s);
    gw_tensor *indices = gw_zeros(s, GW_I64, gw_sampler_count(p));
    int64_t *out = gw_data_for_write(s, indices);
    if (!gw_ok(s) || !sampler_draw(s, p, p->epoch, out)) return tensor_poison_of(s);
    return indices;
}
