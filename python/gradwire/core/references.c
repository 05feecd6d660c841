// References.
#include "core.h"

PyTypeObject *rref_type;

static gw_rref *rref_of(PyObject *self) {
    return (gw_rref *)handle_of(self);
}

static PyObject *owner(PyObject *self, PyObject *unused) {
    (void)unused;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_worker w = gw_rref_owner(s, rref_of(self));
    PyObject *result = gw_ok(s) ? object_of_worker(w) : raise_scope(s);
    scope_end(s);
    return result;
}

static PyObject *is_owner(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(gw_rref_is_owner(rref_of(self)));
}

static PyObject *is_confirmed(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(gw_rref_is_confirmed(rref_of(self)));
}

// local_value(timeout_ms): the object or value itself, on its owner.
static PyObject *local_value(PyObject *self, PyObject *args) {
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "L", &timeout_ms)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    if (timeout_ms > 0) gw_scope_set_timeout(s, timeout_ms);
    PyObject *result = served_object(s, rref_of(self));
    scope_end(s);
    return result;
}

// fetch(): a Future of a value that is no object of Python.
static PyObject *fetch(PyObject *self, PyObject *unused) {
    (void)unused;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_future *f;
    Py_BEGIN_ALLOW_THREADS
    f = gw_to_here_async(s, rref_of(self));
    Py_END_ALLOW_THREADS
    PyObject *result = gw_ok(s) ? handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)f)
                                : raise_scope(s);
    scope_end(s);
    return result;
}

// by_value(): a Future that, as an argument, passes the value from its owner to the callee.
static PyObject *by_value(PyObject *self, PyObject *unused) {
    (void)unused;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_future *f;
    Py_BEGIN_ALLOW_THREADS
    f = gw_by_value(s, rref_of(self));
    Py_END_ALLOW_THREADS
    PyObject *result = gw_ok(s) ? handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)f)
                                : raise_scope(s);
    scope_end(s);
    return result;
}

static PyObject *set_name(PyObject *self, PyObject *args) {
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    Py_BEGIN_ALLOW_THREADS
    gw_rref_set_name(s, rref_of(self), name);
    Py_END_ALLOW_THREADS
    PyObject *result = gw_ok(s) ? Py_NewRef(Py_None) : raise_scope(s);
    scope_end(s);
    return result;
}

// named(to, name, timeout_ms): the RRef of a value that |to| has named.
PyObject *core_named(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *to;
    const char *name;
    long long timeout_ms;
    gw_target t;
    if (!PyArg_ParseTuple(args, "OsL", &to, &name, &timeout_ms) || !target_of_object(to, &t))
        return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_rref *r;
    interrupt wait;
    interrupt_begin(s, &wait);
    if (timeout_ms > 0) gw_scope_set_timeout(s, timeout_ms);
    r = gw_named_with(s, t, name);
    interrupt_end(s, &wait);
    PyObject *result =
        gw_ok(s) ? handle_object_open((PyTypeObject *)hooks.rref, (gw_handle *)r) : raise_scope(s);
    scope_end(s);
    return result;
}

// owned_count(): the values of this worker to which references exist.
PyObject *core_owned_count(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    int count = gw_rref_owned_count(s);
    PyObject *result = gw_ok(s) ? PyLong_FromLong(count) : raise_scope(s);
    scope_end(s);
    return result;
}

static PyObject *object_of_reference(const gw_reference_info *x) {
    return Py_BuildValue("{sKsNsNsssssLsNsN}", "id", (unsigned long long)x->id, "owner",
                         object_of_worker(x->owner), "holder", object_of_worker(x->holder), "what",
                         x->what, "origin", x->origin, "age_ms", (long long)x->age_ms,
                         "is_confirmed", PyBool_FromLong(x->is_confirmed), "is_mine",
                         PyBool_FromLong(x->is_mine));
}

// references(): a list of dicts, one for each reference that this worker knows.
PyObject *core_references(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    int max = gw_references(s, NULL, 0);
    gw_reference_info *all = gw_alloc(s, (size_t)(max + 1) * sizeof *all);
    int count = all ? gw_references(s, all, max) : 0;
    if (count > max) count = max;
    PyObject *out = gw_ok(s) ? PyList_New(count) : raise_scope(s);
    for (int i = 0; out && i < count; i++) {
        PyObject *item = object_of_reference(&all[i]);
        if (!item)
            Py_CLEAR(out);
        else
            PyList_SetItem(out, i, item);
    }
    scope_end(s);
    return out;
}

static PyMethodDef methods[] = {
    { "_owner", owner, METH_NOARGS, NULL },
    { "_is_owner", is_owner, METH_NOARGS, NULL },
    { "_is_confirmed", is_confirmed, METH_NOARGS, NULL },
    { "_local_value", local_value, METH_VARARGS, NULL },
    { "_fetch", fetch, METH_NOARGS, NULL },
    { "_by_value", by_value, METH_NOARGS, NULL },
    { "_set_name", set_name, METH_VARARGS, NULL },
    { 0 },
};
static PyType_Slot slots[] = {
    { Py_tp_dealloc, handle_object_dealloc },
    { Py_tp_methods, methods },
    { 0 },
};
static PyType_Spec spec = { "gradwire._core.RRef", sizeof(handle_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                                Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            slots };

bool references_add_types(PyObject *module) {
    rref_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return rref_type && PyModule_AddObjectRef(module, "RRef", (PyObject *)rref_type) == 0;
}
