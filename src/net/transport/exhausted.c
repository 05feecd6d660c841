#include "net/transport/exhausted.h"

#include "base/log.h"
#include "base/system_error.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { AGAIN_S = 10 };

bool exhausted_is(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static bool is_due(void) {
    static _Atomic int64_t next_s;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    int64_t due = next_s;
    return t.tv_sec >= due && atomic_compare_exchange_strong(&next_s, &due, t.tv_sec + AGAIN_S);
}

void exhausted_log(const char *what, int error) {
    if (exhausted_is(error) && is_due()) log_error("%s: %s", what, system_error_text(error).text);
}
