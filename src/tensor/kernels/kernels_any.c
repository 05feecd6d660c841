// The kernels and loops for any CPU.
#define LANES_BYTES 16
#define KERNELS kernels_any
#define LOOPS loops_any
#define KERNELS_NAME "any"
#include "tensor/kernels/kernels_body.h"
