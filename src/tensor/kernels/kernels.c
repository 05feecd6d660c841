#include "tensor/kernels/kernels.h"

#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool kernels_run_here(const kernels *k) {
    if (k == &kernels_any) return true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (k == &kernels_avx2) return __builtin_cpu_supports("avx2");
#if defined(__SANITIZE_ADDRESS__)
    // gcc 12 spills 64-byte vectors as if aligned, but the frames that this sanitizer moves off the
    // stack are not.
    return false;
#endif
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

static const kernels *choose(void) {
    static const kernels *const all[] = { &kernels_avx512, &kernels_avx2, &kernels_any };
    const char *wanted = getenv("GW_KERNELS");
    for (size_t i = 0; wanted && i < 3; i++)
        if (strcmp(wanted, all[i]->name) == 0 && kernels_run_here(all[i])) return all[i];
    size_t i = 0;
    while (!kernels_run_here(all[i])) i++;
    return all[i];
}

// An unknown name is logged by base/variables.h.
static void log_choice(const kernels *k) {
    const char *wanted = getenv("GW_KERNELS");
    if (wanted && strcmp(wanted, k->name) && (!strcmp(wanted, "avx2") || !strcmp(wanted, "avx512")))
        log_line("GW_KERNELS=%s: this CPU does not have these instructions, so \"%s\" is used",
                 wanted, k->name);
}

const kernels *kernels_get(void) {
    static const kernels *_Atomic chosen;  // a race chooses the same
    const kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!k) {
        const kernels *before = NULL;
        k = choose();
        if (atomic_compare_exchange_strong(&chosen, &before, k)) log_choice(k);
    }
    return k;
}
