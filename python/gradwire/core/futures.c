// Futures.
#include "core.h"

PyTypeObject *future_type;

static gw_future *future_of(PyObject *self) {
    return (gw_future *)handle_of(self);
}

// ---- Waiting --------------------------------------------------------------------------------------
// A timeout below 0 is none; 0 milliseconds would be none for the library.
static void limit(gw_scope *s, long long timeout_ms) {
    if (timeout_ms >= 0) gw_scope_set_timeout(s, timeout_ms ? timeout_ms : 1);
}

// wait(timeout_ms, is_plain)
static PyObject *wait(PyObject *self, PyObject *args) {
    long long timeout_ms;
    int is_plain;
    if (!PyArg_ParseTuple(args, "Lp", &timeout_ms, &is_plain)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_value v;
    interrupt wait;
    interrupt_begin(s, &wait);
    limit(s, timeout_ms);
    v = gw_wait(s, future_of(self));
    interrupt_end(s, &wait);
    PyObject *result = gw_ok(s) ? object_of_value(s, v, is_plain) : raise_scope(s);
    scope_end(s);
    return result;
}

static gw_future **read_futures(gw_scope *s, PyObject *list) {
    Py_ssize_t count = PyList_Size(list);
    gw_future **out = gw_alloc(s, (size_t)(count + 1) * sizeof(gw_future *));
    if (!out) return (gw_future **)(void *)raise_scope(s);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *f = PyList_GetItem(list, i);
        if (!PyObject_TypeCheck(f, future_type)) {
            PyErr_Format(PyExc_TypeError, "a Future is expected, not %R", (PyObject *)Py_TYPE(f));
            return NULL;
        }
        out[i] = future_of(f);
    }
    return out;
}

// wait_any(futures, timeout_ms): the index of the first future that has resolved.
PyObject *core_wait_any(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list, *result = NULL;
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "O!L", &PyList_Type, &list, &timeout_ms)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_future **futures = read_futures(s, list);
    if (futures) {
        int count = (int)PyList_Size(list), index;
        interrupt wait;
        interrupt_begin(s, &wait);
        limit(s, timeout_ms);
        index = gw_wait_any(s, futures, count);
        interrupt_end(s, &wait);
        result = gw_ok(s) ? PyLong_FromLong(index) : raise_scope(s);
    }
    scope_end(s);
    return result;
}

static PyObject *done(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(gw_future_done(future_of(self)));
}

// ---- Callbacks ------------------------------------------------------------------------------------
static void run_callback(gw_scope *s, gw_future *f, void *context) {
    (void)f;
    PyGILState_STATE state;
    if (!gil_enter(&state)) return;
    PyObject *callback = context;
    gw_scope *outer = scope_of_body();
    scope_set_body(s);
    PyObject *result = PyObject_CallNoArgs(callback);
    if (!result) PyErr_WriteUnraisable(callback);
    Py_XDECREF(result);
    Py_DECREF(callback);
    scope_set_body(outer);
    gil_leave(state);
}

// on_done(callback): callback() runs on a thread of the pool when the future has resolved.
static PyObject *on_done(PyObject *self, PyObject *callback) {
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    Py_INCREF(callback);
    Py_BEGIN_ALLOW_THREADS
    gw_on_done(s, future_of(self), run_callback, callback, .where = GW_POOL);
    Py_END_ALLOW_THREADS
    bool has_failed = !gw_ok(s);
    if (has_failed) {
        Py_DECREF(callback);
        raise_scope(s);
    }
    scope_end(s);
    return has_failed ? NULL : Py_NewRef(Py_None);
}

// ---- Resolving ------------------------------------------------------------------------------------
// If |s| has failed, with its error.
static PyObject *resolve(gw_scope *s, PyObject *self, gw_value v) {
    Py_BEGIN_ALLOW_THREADS
    gw_future_set_with(s, future_of(self), v);
    Py_END_ALLOW_THREADS
    return Py_None;
}

// set(value): True; False if the future has resolved before.
static PyObject *set(PyObject *self, PyObject *x) {
    gw_value v;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    bool is_value = value_of_object(s, x, false, &v);
    if (is_value) resolve(s, self, v);
    bool is_set = gw_ok(s);
    if (!is_set && gw_scope_error(s)->status != GW_WRONG_STATE) {
        raise_scope(s);
        is_value = false;
    }
    gw_scope_clear(s);
    scope_end(s);
    return is_value ? PyBool_FromLong(is_set) : NULL;
}

// fail(exception): as set, with an error.
static PyObject *fail(PyObject *self, PyObject *exception) {
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    if (gw_future_done(future_of(self))) {
        scope_end(s);
        Py_RETURN_FALSE;
    }
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    fail_with_exception(s);
    resolve(s, self, gw_none());
    gw_scope_clear(s);
    scope_end(s);
    Py_RETURN_TRUE;
}

static PyObject *cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    Py_BEGIN_ALLOW_THREADS
    gw_cancel(s, future_of(self));
    Py_END_ALLOW_THREADS
    scope_end(s);
    Py_RETURN_NONE;
}

// future(): a future that the program resolves itself.
PyObject *core_future(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_future *f = gw_future_open(s);
    PyObject *result = gw_ok(s) ? handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)f)
                                : raise_scope(s);
    scope_end(s);
    return result;
}

// member_lost(workers): a future that fails when one of the workers is lost.
PyObject *core_member_lost(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list, *result = NULL;
    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &list)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    int count = (int)PyList_Size(list);
    gw_worker *workers = gw_alloc(s, (size_t)(count + 1) * sizeof *workers);
    bool is_read = workers;
    for (int i = 0; is_read && i < count; i++)
        is_read = worker_of_object(PyList_GetItem(list, i), &workers[i]);
    if (is_read) {
        gw_future *f = gw_member_lost(s, workers, count);
        result = gw_ok(s) ? handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)f) : NULL;
    }
    if (!result && !gw_ok(s)) raise_scope(s);
    scope_end(s);
    return result;
}

static PyMethodDef methods[] = {
    { "_wait", wait, METH_VARARGS, NULL },
    { "_done", done, METH_NOARGS, NULL },
    { "_on_done", on_done, METH_O, NULL },
    { "_set", set, METH_O, NULL },
    { "_fail", fail, METH_O, NULL },
    { "_cancel", cancel, METH_NOARGS, NULL },
    { 0 },
};
static PyType_Slot slots[] = {
    { Py_tp_dealloc, handle_object_dealloc },
    { Py_tp_methods, methods },
    { 0 },
};
static PyType_Spec spec = { "gradwire._core.Future", sizeof(handle_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                                Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            slots };

bool futures_add_types(PyObject *module) {
    future_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return future_type && PyModule_AddObjectRef(module, "Future", (PyObject *)future_type) == 0;
}
