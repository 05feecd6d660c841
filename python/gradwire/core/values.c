// Values of calls as Python objects, and back.
//
//     None bool int float str bytes   none bool int float string bytes
//     list, tuple; dict with str keys list; map
//     an object with a buffer         tensor
//     RRef, Future, Worker            rref, future, worker
#include "core.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

typedef struct conversion {
    gw_scope *scope;
    bool
        is_plain;  // the value is read by programs of other languages, too; else it is part of a pickle
    bool copies;  // |scope| has copies of texts and bytes, and counts on handles
    int depth;
} conversion;

static bool convert(conversion *c, PyObject *x, gw_value *out);

// ---- From Python ----------------------------------------------------------------------------------
static const char *keep_text(const conversion *c, const char *text, size_t size) {
    if (!c->copies) return text;
    char *copy = gw_alloc(c->scope, size + 1);
    if (!copy) return "";
    memcpy(copy, text, size);
    return copy;
}

static gw_handle *keep_handle(const conversion *c, PyObject *x) {
    return c->copies ? gw_keep_handle(c->scope, handle_of(x)) : handle_of(x);
}

static bool convert_int(PyObject *x, gw_value *out) {
    long long i = PyLong_AsLongLong(x);
    if (i == -1 && PyErr_Occurred()) return false;
    *out = gw_value_of_int(i);
    return true;
}

static bool convert_text(const conversion *c, PyObject *x, gw_value *out) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(x, &size);
    if (!text) return false;
    if (strlen(text) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "a string of a call must not have a null character");
        return false;
    }
    *out = gw_value_of_string(keep_text(c, text, (size_t)size));
    return true;
}

static bool convert_bytes(const conversion *c, PyObject *x, gw_value *out) {
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(x, &bytes, &size) < 0) return false;
    *out = gw_value_of_bytes(keep_text(c, bytes, (size_t)size), (size_t)size);
    return true;
}

static bool convert_items(conversion *c, PyObject *x, gw_value *out) {
    gw_list *list = gw_list_open(c->scope);
    Py_ssize_t count = PySequence_Size(x);
    for (Py_ssize_t i = 0; i < count; i++) {
        gw_value v;
        PyObject *item = PySequence_GetItem(x, i);
        bool is_converted = item && convert(c, item, &v);
        if (is_converted) gw_list_add_with(c->scope, list, v);
        Py_XDECREF(item);
        if (!is_converted) return false;
    }
    *out = gw_value_of_list(list);
    return count >= 0;
}

static bool convert_item(conversion *c, gw_map *map, PyObject *item) {
    PyObject *key = PyTuple_GetItem(item, 0);
    gw_value name, v;
    if (!PyUnicode_Check(key)) {
        PyErr_SetString(PyExc_TypeError, "the keys of a dict in a call by name are strings");
        return false;
    }
    if (!convert_text(c, key, &name) || !convert(c, PyTuple_GetItem(item, 1), &v)) return false;
    gw_map_put_with(c->scope, map, name.as.string, v);
    return true;
}

// Converting an item may run code that changes |x|.
static bool convert_dict(conversion *c, PyObject *x, gw_value *out) {
    gw_map *map = gw_map_open(c->scope);
    PyObject *items = PyDict_Items(x);
    bool is_converted = items;
    for (Py_ssize_t i = 0; is_converted && i < PyList_Size(items); i++)
        is_converted = convert_item(c, map, PyList_GetItem(items, i));
    Py_XDECREF(items);
    *out = gw_value_of_map(map);
    return is_converted;
}

bool worker_of_object(PyObject *x, gw_worker *out) {
    unsigned long long incarnation;
    bool is_read = PyArg_ParseTuple(x, "siK", &out->name, &out->rank, &incarnation);
    out->incarnation = incarnation;
    return is_read;
}

static bool convert_worker(const conversion *c, PyObject *x, gw_value *out) {
    gw_worker w;
    if (!worker_of_object(x, &w)) return false;
    w.name = keep_text(c, w.name, strlen(w.name));
    *out = gw_value_of_worker(w);
    return true;
}

// A Future of a pickle, or of a value that only this process has, is passed as another one, of the plain value.
static bool convert_future(const conversion *c, PyObject *x, gw_value *out) {
    PyObject *passed = c->is_plain ? PyObject_CallMethod(x, "_plain", NULL) : Py_NewRef(x);
    if (passed) *out = gw_value_of_future((gw_future *)gw_keep_handle(c->scope, handle_of(passed)));
    Py_XDECREF(passed);
    return passed;
}

static bool refuse(PyObject *x) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "a call by name has no value of type %R", (PyObject *)Py_TYPE(x));
    return false;
}

static bool convert_other(gw_scope *s, PyObject *x, gw_value *out) {
    if (PyObject_CheckBuffer(x)) return value_of_buffer(s, x, out);
    if (!PyIndex_Check(x)) return refuse(x);
    PyObject *number = PyNumber_Index(x);  // an integer of numpy has no buffer in each version
    bool is_converted = number && convert_int(number, out);
    Py_XDECREF(number);
    return is_converted;
}

static bool convert_container(conversion *c, PyObject *x, gw_value *out) {
    if (c->depth == DEPTH_MAX) {
        PyErr_Format(PyExc_ValueError, "lists and dicts are nested deeper than %d", DEPTH_MAX);
        return false;
    }
    c->depth++;
    bool is_converted = PyDict_Check(x) ? convert_dict(c, x, out) : convert_items(c, x, out);
    c->depth--;
    return is_converted;
}

static bool convert(conversion *c, PyObject *x, gw_value *out) {
    *out = gw_none();
    if (x == Py_None) return true;
    if (PyBool_Check(x)) {
        *out = gw_value_of_bool(x == Py_True);
        return true;
    }
    if (PyLong_Check(x)) return convert_int(x, out);
    if (PyFloat_Check(x)) {
        *out = gw_value_of_float(PyFloat_AsDouble(x));
        return true;
    }
    if (PyUnicode_Check(x)) return convert_text(c, x, out);
    if (PyBytes_Check(x)) return convert_bytes(c, x, out);
    if (PyObject_TypeCheck(x, future_type)) return convert_future(c, x, out);
    if (PyObject_TypeCheck(x, rref_type)) {
        *out = gw_value_of_rref((gw_rref *)keep_handle(c, x));
        return true;
    }
    if ((PyObject *)Py_TYPE(x) == hooks.worker) return convert_worker(c, x, out);
    if (PyList_Check(x) || PyTuple_Check(x) || PyDict_Check(x)) return convert_container(c, x, out);
    return convert_other(c->scope, x, out);
}

// What the scope could not do, such as to nest lists deeper.
static bool check_scope(gw_scope *s) {
    return gw_ok(s) || raise_scope(s);
}

bool value_of_object(gw_scope *s, PyObject *x, bool is_plain, gw_value *out) {
    conversion c = { .scope = s, .is_plain = is_plain };
    return convert(&c, x, out) && check_scope(s);
}

bool value_of_result(gw_scope *s, PyObject *x, bool is_plain, gw_value *out) {
    conversion c = { .scope = s, .is_plain = is_plain, .copies = true };
    return convert(&c, x, out) && check_scope(s);
}

// ---- To Python ------------------------------------------------------------------------------------
PyObject *object_of_worker(gw_worker w) {
    return PyObject_CallFunction(hooks.worker, "siK", w.name, w.rank,
                                 (unsigned long long)w.incarnation);
}

static PyObject *object_of_list(gw_scope *s, const gw_list *list, bool is_plain) {
    gw_values items = gw_list_items(list);
    PyObject *out = PyList_New(items.count);
    for (int i = 0; out && i < items.count; i++) {
        PyObject *item = object_of_value(s, items.items[i], is_plain);
        if (!item)
            Py_CLEAR(out);
        else
            PyList_SetItem(out, i, item);
    }
    return out;
}

static PyObject *object_of_map(gw_scope *s, gw_map *map, bool is_plain) {
    PyObject *out = PyDict_New();
    for (int i = 0; out && i < gw_map_count(map); i++) {
        const char *key = gw_map_key(s, map, i);
        PyObject *item = object_of_value(s, gw_map_get(s, map, key), is_plain);
        if (!item || PyDict_SetItemString(out, key, item) < 0) Py_CLEAR(out);
        Py_XDECREF(item);
    }
    return out;
}

static PyObject *object_of_tensor(gw_tensor *t, bool is_plain) {
    PyObject *tensor = tensor_object_open(t);
    if (!tensor || !is_plain) return tensor;
    PyObject *array = PyObject_CallFunctionObjArgs(hooks.array, tensor, NULL);
    Py_DECREF(tensor);
    return array;
}

// An error as a value is returned as the exception, not raised.
static PyObject *object_of_error(gw_scope *s, const gw_error *error) {
    raise_error(s, error);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

PyObject *object_of_value(gw_scope *s, gw_value v, bool is_plain) {
    switch (v.kind) {
    case GW_NONE: Py_RETURN_NONE;
    case GW_BOOL: return PyBool_FromLong(v.as.boolean);
    case GW_INT: return PyLong_FromLongLong(v.as.integer);
    case GW_FLOAT: return PyFloat_FromDouble(v.as.real);
    case GW_STRING: return PyUnicode_FromStringAndSize(v.as.string, (Py_ssize_t)v.size);
    case GW_BYTES: return PyBytes_FromStringAndSize(v.as.bytes, (Py_ssize_t)v.size);
    case GW_TENSOR: return object_of_tensor(v.as.tensor, is_plain);
    case GW_LIST: return object_of_list(s, v.as.list, is_plain);
    case GW_MAP: return object_of_map(s, v.as.map, is_plain);
    case GW_RREF: return handle_object_open((PyTypeObject *)hooks.rref, (gw_handle *)v.as.rref);
    case GW_FUTURE:
        return handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)v.as.future);
    case GW_WORKER: return object_of_worker((gw_worker){ v.as.worker, v.rank, v.incarnation });
    case GW_ERROR: return object_of_error(s, v.as.error);
    default: return PyErr_Format(PyExc_ValueError, "a value of the unknown kind %d", (int)v.kind);
    }
}

PyObject *objects_of_args(gw_scope *s, const gw_args *a, bool is_plain) {
    gw_values args = gw_args_all(a);
    PyObject *out = PyTuple_New(args.count);
    for (int i = 0; out && i < args.count; i++) {
        PyObject *item = object_of_value(s, args.items[i], is_plain);
        if (!item)
            Py_CLEAR(out);
        else
            PyTuple_SetItem(out, i, item);
    }
    return out;
}
