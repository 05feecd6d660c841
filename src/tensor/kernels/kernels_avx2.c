// The kernels and loops for CPUs with AVX2.
#define LANES_BYTES 32
#include "base/random.h"
#include "tensor/kernels/kernels.h"
#include "tensor/kernels/kernels_lanes.h"
#include "tensor/kernels/loops.h"
#include "tensor/dtype.h"

#include <math.h>

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("avx2")
#endif

#define KERNELS kernels_avx2
#define LOOPS loops_avx2
#define KERNELS_NAME "avx2"
#include "tensor/kernels/kernels_body.h"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
