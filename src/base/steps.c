#include "base/steps.h"

_Thread_local uint64_t steps_taken;
