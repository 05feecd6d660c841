// Shared by the files of this room: the descriptions and the state of hooks.
#ifndef PARALLEL_HOOKS_HOOKS_H
#define PARALLEL_HOOKS_HOOKS_H

#include "parallel/ddp/ddp.h"

typedef struct hook_state {
    gw_hook_save *save;  // NULL: nothing
    gw_hook_load *load;
    void *context;
} hook_state;

// "gw_hook_quantize_channel .channel = 512". A hook of the program is only named as one. The text is |s|'s.
const char *hook_describe(gw_scope *s, gw_comm_hook *hook, const void *context);
// Of a hook of this library.
hook_state hook_state_of(gw_comm_hook *hook, void *context);

#endif
