// The loops for CPUs with AVX-512.
#include "tensor/kernels/loops.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))),        \
                             apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl")
#endif

#define LOOPS loops_avx512
#include "tensor/kernels/loops_body.h"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
