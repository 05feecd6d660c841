#include "base/env.h"

_Thread_local env *env_held_here;
