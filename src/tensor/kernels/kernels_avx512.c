// The kernels and loops for CPUs with AVX-512 F, DQ, BW and VL.
#define LANES_BYTES 64
#include "base/random.h"
#include "tensor/kernels/kernels.h"
#include "tensor/kernels/kernels_lanes.h"
#include "tensor/kernels/loops.h"
#include "tensor/dtype.h"

#include <math.h>

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))),        \
                             apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl")
#endif

#define KERNELS kernels_avx512
#define LOOPS loops_avx512
#define KERNELS_NAME "avx512"
#include "tensor/kernels/kernels_body.h"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
