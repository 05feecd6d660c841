// The table of backends.
#include "collective/backend/backend.h"

#include "base/nearest.h"
#include "base/status.h"
#include "collective/group/group.h"

#include <string.h>

// Sessions carry values by plans, which need no communicator.
const backend backend_session = {
    .name = "session",
    .operations = (1u << OPERATION_COUNT) - 1,
    .ops = (1u << (COMBINE_BXOR + 1)) - 1,
    .dtypes = (1u << GW_DTYPE_COUNT) - 1,
    .bytes_max = UINT64_MAX,
    .devices = 1u << GW_CPU,
    .guarantees = BACKEND_BITS | BACKEND_SURVIVES_LOSS | BACKEND_CANCELS | BACKEND_KEYS,
    .channels = RUNS_MAX,
};

const backend *backend_of_tests;

enum { BACKENDS = 3 };

static const backend *backend_at(int i) {
    const backend *const all[BACKENDS] = { &backend_session, &backend_mpi, backend_of_tests };
    return all[i];
}

gw_status backend_find(const char *name, const backend **out, gw_error *error) {
    nearest n = nearest_to(name);
    for (int i = 0; i < BACKENDS; i++) {
        const backend *b = backend_at(i);
        if (b) nearest_offer(&n, b->name);
        if (!b || (name && strcmp(name, b->name) != 0)) continue;
        *out = b;
        return GW_OK;
    }
    return error_set(error, GW_INVALID,
                     "there is no backend \"%.64s\"; there are session and mpi%s", name,
                     nearest_words(&n));
}

void backends_lose(void) {
    for (int i = 0; i < BACKENDS; i++) {
        const backend *b = backend_at(i);
        if (b && b->lose) b->lose();
    }
}
