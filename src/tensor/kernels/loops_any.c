// The loops for any CPU.
#include "tensor/kernels/loops.h"

#include <math.h>
#include <string.h>

#define LOOPS loops_any
#include "tensor/kernels/loops_body.h"
