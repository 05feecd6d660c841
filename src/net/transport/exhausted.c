#include "net/transport/exhausted.h"

#include "base/log.h"
#include "base/system_error.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { AGAIN_S = 10, APART_S = 3 };

// Lacks that are no farther apart than APART_S are one. A process has the same limits in all its threads.
static _Atomic int64_t first_s, last_s;
static _Atomic int last_error;

bool exhausted_is(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static int64_t now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec;
}

static bool is_due(void) {
    static _Atomic int64_t next_s;
    int64_t now = now_s(), due = next_s;
    return now >= due && atomic_compare_exchange_strong(&next_s, &due, now + AGAIN_S);
}

static void note(int error) {
    int64_t now = now_s();
    if (!last_error || now - last_s > APART_S) first_s = now;
    last_s = now;
    last_error = error;
}

int exhausted_for_long(void) {
    int64_t now = now_s();
    bool lasts = last_error && now - last_s <= APART_S && last_s - first_s >= LACKS_S;
    return lasts ? last_error : 0;
}

void exhausted_log(const char *what, int error) {
    if (!exhausted_is(error)) return;
    note(error);
    if (is_due()) log_error("%s: %s", what, system_error_text(error).text);
}
