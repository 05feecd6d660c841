// Objects that hold one count of a handle: futures, references, tensors and groups.
#include "core.h"

PyObject *handle_object_open(PyTypeObject *type, gw_handle *handle) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (self) ((handle_object *)(void *)self)->handle = gw_retain_handle(handle);
    return self;
}

// A child that fork has made has no agent, and its handles are the parent's.
void handle_object_dealloc(PyObject *self) {
    gw_handle *handle = handle_of(self);
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
    if (!handle || agent_is_forked()) return;
    Py_BEGIN_ALLOW_THREADS
    gw_release_handle(handle);
    Py_END_ALLOW_THREADS
}
