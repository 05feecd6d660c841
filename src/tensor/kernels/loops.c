#include "tensor/kernels/loops.h"

#include "tensor/kernels/kernels.h"

#include <stdatomic.h>

const loops *loops_get(void) {
    static const loops *_Atomic chosen;  // a race chooses the same
    const loops *l = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (l) return l;
    const kernels *k = kernels_get();
    l = k == &kernels_avx512 ? &loops_avx512 : k == &kernels_avx2 ? &loops_avx2 : &loops_any;
    atomic_store_explicit(&chosen, l, memory_order_relaxed);
    return l;
}
