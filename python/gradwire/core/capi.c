// The capsule for the extension module of gradwire.torch.
#include "core.h"
#include "capi.h"

static void (*add_more)(gw_scope *s, gw_registry *r);

static void set_register(void (*add)(gw_scope *s, gw_registry *r)) {
    add_more = add;
}

void capi_register(gw_scope *s, gw_registry *r) {
    if (add_more) add_more(s, r);
}

static bool enter_thread(void) {
    PyGILState_STATE state;
    if (!gil_enter(&state)) return false;
    gil_leave(state);
    return true;
}

bool capi_add(PyObject *module) {
    static core_capi table = { .version = CORE_CAPI_VERSION,
                               .begin = agent_begin,
                               .end = agent_end,
                               .enter_thread = enter_thread,
                               .set_register = set_register };
    PyObject *capsule = PyCapsule_New(&table, CORE_CAPI_NAME, NULL);
    bool is_added = capsule && PyModule_AddObjectRef(module, "capi", capsule) == 0;
    Py_XDECREF(capsule);
    return is_added;
}
