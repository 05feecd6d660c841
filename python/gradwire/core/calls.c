// Calls of functions of other workers, and the workers themselves.
#include "core.h"

// ---- Receivers ------------------------------------------------------------------------------------
// A name, a rank, a Worker or an RRef; a name is borrowed.
bool target_of_object(PyObject *to, gw_target *out) {
    gw_worker worker;
    if (PyUnicode_Check(to)) {
        const char *name = PyUnicode_AsUTF8AndSize(to, NULL);
        *out = gw_to_name(name);
        return name;
    }
    if (PyObject_TypeCheck(to, rref_type)) {
        *out = gw_to_rref((gw_rref *)handle_of(to));
        return true;
    }
    if ((PyObject *)Py_TYPE(to) == hooks.worker) {
        bool is_read = worker_of_object(to, &worker);
        if (is_read) *out = gw_to_worker(worker);
        return is_read;
    }
    if (!PyIndex_Check(to)) {
        PyErr_Format(PyExc_TypeError, "a worker is a name, a rank, a Worker or an RRef, not %R",
                     (PyObject *)Py_TYPE(to));
        return false;
    }
    *out = gw_to_rank(PyNumber_AsSsize_t(to, PyExc_OverflowError));
    return !PyErr_Occurred();
}

// ---- Calls ----------------------------------------------------------------------------------------
typedef enum call_mode { SYNC, ASYNC, REMOTE, NOTIFY } call_mode;

typedef struct call_arguments {
    PyObject *to, *values;
    const char *function;
    long long timeout_ms;
    int mode, is_plain;
} call_arguments;

enum { VALUES_ON_STACK = 16 };

static bool read_values(gw_scope *s, const call_arguments *a, gw_value *out) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(a->values); i++)
        if (!value_of_object(s, PyTuple_GetItem(a->values, i), a->is_plain, &out[i])) return false;
    return true;
}

static PyObject *run_call(gw_scope *s, gw_target to, const call_arguments *a, gw_values values) {
    gw_call_options o = GW_OPTIONS(gw_call_options, .timeout_ms = a->timeout_ms);
    gw_future *future = NULL;
    gw_rref *rref = NULL;
    gw_value v = gw_none();
    interrupt wait;
    interrupt_begin(s, &wait);
    switch ((call_mode)a->mode) {
    case SYNC: v = gw_rpc_sync_with(s, to, a->function, values, o); break;
    case ASYNC: future = gw_rpc_async_with(s, to, a->function, values, o); break;
    case REMOTE: rref = gw_remote_with(s, to, a->function, values, o); break;
    case NOTIFY: gw_rpc_notify_with(s, to, a->function, values, o); break;
    }
    interrupt_end(s, &wait);
    if (!gw_ok(s)) return raise_scope(s);
    if (future) return handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)future);
    if (rref) return handle_object_open((PyTypeObject *)hooks.rref, (gw_handle *)rref);
    return object_of_value(s, v, a->is_plain);
}

// call(to, function, values, timeout_ms, mode, is_plain): the result, a Future, an RRef or None.
PyObject *core_call(PyObject *module, PyObject *args) {
    (void)module;
    call_arguments a;
    gw_target to;
    if (!PyArg_ParseTuple(args, "OsO!Lip", &a.to, &a.function, &PyTuple_Type, &a.values,
                          &a.timeout_ms, &a.mode, &a.is_plain) ||
        !target_of_object(a.to, &to))
        return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    Py_ssize_t count = PyTuple_Size(a.values);
    gw_value on_stack[VALUES_ON_STACK], *values = on_stack;
    if (count > VALUES_ON_STACK) values = gw_alloc(s, (size_t)count * sizeof *values);
    PyObject *result = !values ? raise_scope(s)
                       : !read_values(s, &a, values)
                           ? NULL
                           : run_call(s, to, &a, (gw_values){ (int)count, values });
    scope_end(s);
    return result;
}

// ---- Workers --------------------------------------------------------------------------------------
// self(): this worker and the number of workers.
PyObject *core_self(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_worker self = gw_rpc_self(s);
    PyObject *result = Py_BuildValue("(Ni)", object_of_worker(self), gw_rpc_world_size(s));
    scope_end(s);
    return result;
}

static PyObject *find_worker(gw_scope *s, PyObject *to, gw_worker *out) {
    gw_target t;
    if (!target_of_object(to, &t)) return NULL;
    *out = gw_rpc_worker_with(s, t);
    return gw_ok(s) ? Py_None : raise_scope(s);
}

// worker(to): the Worker of a name, a rank, a Worker or an RRef.
PyObject *core_worker(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *to;
    gw_worker w;
    if (!PyArg_ParseTuple(args, "O", &to)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    PyObject *result = find_worker(s, to, &w) ? object_of_worker(w) : NULL;
    scope_end(s);
    return result;
}

static PyObject *list_of_workers(const gw_worker *workers, int count) {
    PyObject *out = PyList_New(count);
    for (int i = 0; out && i < count; i++) {
        PyObject *w = object_of_worker(workers[i]);
        if (!w)
            Py_CLEAR(out);
        else
            PyList_SetItem(out, i, w);
    }
    return out;
}

// workers(name or None): all workers, or those of a role.
PyObject *core_workers(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    int count = 0;
    if (!PyArg_ParseTuple(args, "z", &name)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    const gw_worker *workers =
        name ? gw_rpc_workers_named(s, name, &count) : gw_rpc_workers(s, &count);
    PyObject *result = gw_ok(s) ? list_of_workers(workers, count) : raise_scope(s);
    scope_end(s);
    return result;
}

// path(to): by which transport the worker is reached, for people.
PyObject *core_path(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *to, *result = NULL;
    gw_worker w;
    if (!PyArg_ParseTuple(args, "O", &to)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    if (find_worker(s, to, &w)) {
        const char *path = gw_rpc_path(s, w);
        result = gw_ok(s) ? PyUnicode_FromString(path) : raise_scope(s);
    }
    scope_end(s);
    return result;
}

// stats(): counts of this worker, as a dict.
PyObject *core_stats(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_rpc_stats x = gw_rpc_get_stats(s);
    scope_end(s);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKss}", "calls_made", x.calls_made, "calls_served",
                         x.calls_served, "messages_sent", x.messages_sent, "messages_received",
                         x.messages_received, "bytes_sent", x.bytes_sent, "bytes_received",
                         x.bytes_received, "reconnects", x.reconnects, "replies_dropped",
                         x.replies_dropped, "protection", x.protection);
}
