#include "steps.h"

#include <stdatomic.h>

static _Atomic uint64_t steps;

// Called by the compiler's code at each basic block.
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
}

uint64_t steps_so_far(void) {
    return atomic_load_explicit(&steps, memory_order_relaxed);
}
