// What the extension module of gradwire.torch uses of this one, so that a process has one agent: the table in the
// capsule gradwire._core.capi. The module of C++ includes this header.
#ifndef PYTHON_CORE_CAPI_H
#define PYTHON_CORE_CAPI_H

#include <gradwire.h>
#include <gradwire/binding.h>

#define CORE_CAPI_NAME "gradwire._core.capi"

enum { CORE_CAPI_VERSION = 1 };  // changes with the table

typedef struct core_capi {
    int version;
    // A scope for one operation of any thread, with or without the GIL. NULL: this process has no agent. Until each has
    // ended, shutdown and leave do not close the agent.
    gw_scope *(*begin)(void);
    void (*end)(gw_scope *s);  // without the GIL
    // Gives the calling thread, which is not one of Python, a state of Python that it keeps until it ends. False: the
    // interpreter ends, and no Python code may run. Without the GIL.
    bool (*enter_thread)(void);
    // Each init calls |add| before it joins, to add functions to those that the worker serves.
    void (*set_register)(void (*add)(gw_scope *s, gw_registry *r));
} core_capi;

#endif
