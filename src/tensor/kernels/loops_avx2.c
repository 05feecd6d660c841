// The loops for CPUs with AVX2.
#include "tensor/kernels/loops.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("avx2")
#endif

#define LOOPS loops_avx2
#include "tensor/kernels/loops_body.h"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
