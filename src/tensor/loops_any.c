// The loops for any CPU.
#include "tensor/loops.h"

#include <math.h>
#include <string.h>

#define LOOPS loops_any
#include "tensor/loops_body.h"
