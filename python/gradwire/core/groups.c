// Groups of workers.
#include "core.h"

PyTypeObject *group_type;

static gw_group *group_of(PyObject *self) {
    return (gw_group *)handle_of(self);
}

// ---- Opening ---------------------------------------------------------------------------------------
static gw_worker *read_workers(gw_scope *s, PyObject *list) {
    Py_ssize_t count = PyList_Size(list);
    gw_worker *out = gw_alloc(s, (size_t)(count + 1) * sizeof *out);
    if (!out) return (gw_worker *)(void *)raise_scope(s);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!worker_of_object(PyList_GetItem(list, i), &out[i])) return NULL;
    return out;
}

static PyObject *object_of_group(gw_scope *s, gw_group *group) {
    if (!gw_ok(s)) return raise_scope(s);
    return group ? handle_object_open(group_type, (gw_handle *)group) : Py_NewRef(Py_None);
}

// group(workers or None, name or None, timeout_ms): of the job's workers if there is no list.
PyObject *core_group(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list, *result = NULL;
    const char *name;
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "OzL", &list, &name, &timeout_ms)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_group_open_options o =
        GW_OPTIONS(gw_group_open_options, .name = name, .timeout_ms = timeout_ms);
    gw_worker *workers = list == Py_None ? NULL : read_workers(s, list);
    if (workers || list == Py_None) {
        gw_group *group;
        int count = workers ? (int)PyList_Size(list) : 0;
        Py_BEGIN_ALLOW_THREADS
        group = workers ? gw_group_open_with(s, workers, count, o) : gw_group_world_with(s, o);
        Py_END_ALLOW_THREADS
        result = object_of_group(s, group);
    }
    scope_end(s);
    return result;
}

// split(color, key, name or None, timeout_ms): None for a color below 0.
static PyObject *split(PyObject *self, PyObject *args) {
    int color, key;
    const char *name;
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "iizL", &color, &key, &name, &timeout_ms)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_group *group;
    interrupt wait;
    interrupt_begin(s, &wait);
    group = gw_group_split(s, group_of(self), color, key, .name = name, .timeout_ms = timeout_ms);
    interrupt_end(s, &wait);
    PyObject *result = object_of_group(s, group);
    scope_end(s);
    return result;
}

// blocks(size)
static PyObject *blocks(PyObject *self, PyObject *args) {
    int size;
    if (!PyArg_ParseTuple(args, "i", &size)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    PyObject *result = object_of_group(s, gw_group_blocks(s, group_of(self), size));
    scope_end(s);
    return result;
}

// ---- After a loss ----------------------------------------------------------------------------------
// reform(min, grow, timeout_ms): the next generation.
static PyObject *reform(PyObject *self, PyObject *args) {
    int min, grow;
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "ipL", &min, &grow, &timeout_ms)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_group *group;
    interrupt wait;
    interrupt_begin(s, &wait);
    group = gw_group_reform(s, group_of(self), .min = min, .grow = grow, .timeout_ms = timeout_ms);
    interrupt_end(s, &wait);
    PyObject *result = object_of_group(s, group);
    scope_end(s);
    return result;
}

static PyObject *object_of_agreement(const gw_agreement *a) {
    PyObject *missing = PyList_New(a->missing_count);
    for (int i = 0; missing && i < a->missing_count; i++)
        PyList_SetItem(missing, i, PyLong_FromLong(a->missing[i]));
    return missing ? Py_BuildValue("(KN)", (unsigned long long)a->flags, missing) : NULL;
}

// agree(flags): the flags that all members have set, and the ranks of missing members.
static PyObject *agree(PyObject *self, PyObject *args) {
    unsigned long long flags;
    if (!PyArg_ParseTuple(args, "K", &flags)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_agreement a;
    interrupt wait;
    interrupt_begin(s, &wait);
    a = gw_group_agree(s, group_of(self), flags);
    interrupt_end(s, &wait);
    PyObject *result = gw_ok(s) ? object_of_agreement(&a) : raise_scope(s);
    scope_end(s);
    return result;
}

// join_group(name, timeout_ms)
PyObject *core_join_group(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "sL", &name, &timeout_ms)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_group *group;
    interrupt wait;
    interrupt_begin(s, &wait);
    group = gw_group_join(s, name, .timeout_ms = timeout_ms);
    interrupt_end(s, &wait);
    PyObject *result = object_of_group(s, group);
    scope_end(s);
    return result;
}

// ---- About a group ---------------------------------------------------------------------------------
static PyObject *history(PyObject *self, PyObject *unused) {
    (void)unused;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    const char *text = gw_group_history(s, group_of(self));
    PyObject *result = gw_ok(s) ? PyUnicode_FromString(text) : raise_scope(s);
    scope_end(s);
    return result;
}

static PyObject *worker(PyObject *self, PyObject *args) {
    int rank;
    if (!PyArg_ParseTuple(args, "i", &rank)) return NULL;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    gw_worker w = gw_group_worker(s, group_of(self), rank);
    PyObject *result = gw_ok(s) ? object_of_worker(w) : raise_scope(s);
    scope_end(s);
    return result;
}

static PyObject *get_rank(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(gw_group_rank(group_of(self)));
}
static PyObject *get_size(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(gw_group_size(group_of(self)));
}
static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(gw_group_name(group_of(self)));
}
static PyObject *get_pending(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(gw_group_pending(group_of(self)));
}
static PyObject *get_generation(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(gw_group_generation(group_of(self)));
}

static PyMethodDef methods[] = {
    { "split", split, METH_VARARGS, NULL },
    { "blocks", blocks, METH_VARARGS, NULL },
    { "reform", reform, METH_VARARGS, NULL },
    { "agree", agree, METH_VARARGS, NULL },
    { "history", history, METH_NOARGS, NULL },
    { "worker", worker, METH_VARARGS, NULL },
    { 0 },
};
static PyGetSetDef members[] = {
    { "rank", get_rank, NULL, NULL, NULL },
    { "size", get_size, NULL, NULL, NULL },
    { "name", get_name, NULL, NULL, NULL },
    { "pending", get_pending, NULL, NULL, NULL },
    { "generation", get_generation, NULL, NULL, NULL },
    { 0 },
};
static PyType_Slot slots[] = {
    { Py_tp_dealloc, handle_object_dealloc },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { 0 },
};
static PyType_Spec spec = { "gradwire._core.Group", sizeof(handle_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };

bool groups_add_types(PyObject *module) {
    group_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return group_type && PyModule_AddObjectRef(module, "Group", (PyObject *)group_type) == 0;
}
