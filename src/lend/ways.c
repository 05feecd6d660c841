#include "lend/ways.h"

#include <stddef.h>
#include <string.h>

enum { CACHED_BYTES = 4 << 20 };  // of a tensor that stays in the cache while it is copied

typedef struct cost {
    const char *name;
    uint32_t fixed_ns, cached_mib_ns, mib_ns;  // once; for each MiB up to CACHED_BYTES; beyond
} cost;

// Fitted to rpc.pull_* and floor.vm_readv_400MB of gw-bench, with GW_LEND=0, GW_TRANSPORT=tcp and
// without: the table "Ways" of bench/README.md. Two processes copy through a ring at the same time, so
// cached bytes arrive sooner than by one copy; beyond the cache, memory bandwidth decides.
static const cost costs[WAY_COUNT] = {
    [WAY_MAP] = { "map", 2000, 0, 0 },
    [WAY_READ] = { "read", 15000, 95000, 170000 },
    [WAY_SHM] = { "shm", 5000, 85000, 260000 },
    [WAY_TCP] = { "tcp", 25000, 215000, 300000 },
};

static uint64_t cost_ns(way w, uint64_t size) {
    const cost *c = &costs[w];
    uint64_t cached = size < CACHED_BYTES ? size : CACHED_BYTES;
    return c->fixed_ns + (cached >> 10) * c->cached_mib_ns / 1024 +
           ((size - cached) >> 10) * c->mib_ns / 1024;
}

way ways_choose(unsigned possible, uint64_t size) {
    way best = WAY_COUNT;
    for (way w = WAY_MAP; w < WAY_COUNT; w++) {
        if (!(possible >> w & 1)) continue;
        if (best == WAY_COUNT || cost_ns(w, size) < cost_ns(best, size)) best = w;
    }
    return best;
}

way ways_of_transport(const char *name) {
    return name && strcmp(name, costs[WAY_SHM].name) == 0 ? WAY_SHM : WAY_TCP;
}
