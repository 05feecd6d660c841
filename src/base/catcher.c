// Registered functions of programs in C++ may throw.
#include "base/scope.h"

#include <gradwire/function.h>

static gw_catcher *catcher_set;

void gw_set_catcher(gw_catcher *catcher) {
    catcher_set = catcher;
}

void scope_run(gw_scope *s, void (*run)(void *context), void *context) {
    if (catcher_set)
        catcher_set(s, run, context);
    else
        run(context);
}
