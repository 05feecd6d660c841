// Functions and classes of Python that other workers call. All functions share one body, and all classes one struct:
// the Python part finds the function by its name.
#include "core.h"

#include <string.h>

typedef struct served {
    PyObject *object;
} served;

static PyObject *class_names;  // of the classes that this worker serves by name

// ---- Bodies ---------------------------------------------------------------------------------------
// Names below "py." carry pickles: their tensors are parts of a pickle, not arrays of the program.
static bool is_pickled(const gw_args *a) {
    return !strncmp(gw_arg_function(a), "py.", 3);
}

static gw_value take_result(gw_scope *s, const gw_args *a, PyObject *result) {
    gw_value v = gw_none();
    bool is_value = result && value_of_result(s, result, !is_pickled(a), &v);
    if (!is_value) fail_with_exception(s);
    Py_XDECREF(result);
    return is_value ? v : gw_none();
}

static int running;  // bodies; guarded by the GIL

int serve_running(void) {
    return running;
}

static bool enter(gw_scope *s, gw_scope **out_outer, PyGILState_STATE *out_state) {
    if (!gil_enter(out_state)) {
        gw_fail(s, GW_DISCONNECTED, "the interpreter of this worker has ended");
        return false;
    }
    *out_outer = scope_of_body();
    scope_set_body(s);
    running++;
    return true;
}

static void leave(gw_scope *outer, PyGILState_STATE state) {
    running--;
    scope_set_body(outer);
    gil_leave(state);
}

// Calls hook(name, caller, arguments), with |object| in front of these if there is one.
static PyObject *call_hook(gw_scope *s, PyObject *hook, PyObject *object, const gw_args *a) {
    PyObject *args = objects_of_args(s, a, !is_pickled(a));
    PyObject *caller = object_of_worker(gw_arg_caller(a));
    PyObject *name = PyUnicode_FromString(gw_arg_function(a));
    PyObject *result = NULL;
    if (args && caller && name)
        result = object ? PyObject_CallFunctionObjArgs(hook, object, name, caller, args, NULL)
                        : PyObject_CallFunctionObjArgs(hook, name, caller, args, NULL);
    Py_XDECREF(args);
    Py_XDECREF(caller);
    Py_XDECREF(name);
    return result;
}

static gw_value run_function(gw_scope *s, const gw_args *a) {
    PyGILState_STATE state;
    gw_scope *outer;
    if (!enter(s, &outer, &state)) return gw_none();
    gw_value v = take_result(s, a, call_hook(s, hooks.call, NULL, a));
    leave(outer, state);
    return v;
}

static gw_value run_method(gw_scope *s, void *self, const gw_args *a) {
    PyGILState_STATE state;
    gw_scope *outer;
    if (!enter(s, &outer, &state)) return gw_none();
    gw_value v = take_result(s, a, call_hook(s, hooks.method, ((served *)self)->object, a));
    leave(outer, state);
    return v;
}

static void open_object(gw_scope *own, void *self, const gw_args *a) {
    PyGILState_STATE state;
    gw_scope *outer;
    if (!enter(own, &outer, &state)) return;
    ((served *)self)->object = call_hook(own, hooks.open, NULL, a);
    if (!((served *)self)->object) fail_with_exception(own);
    leave(outer, state);
}

static void close_object(gw_scope *own, void *self) {
    PyGILState_STATE state;
    gw_scope *outer;
    if (!enter(own, &outer, &state)) return;
    Py_CLEAR(((served *)self)->object);
    leave(outer, state);
}

// ---- Registering ------------------------------------------------------------------------------------
static void add_function(gw_scope *s, gw_registry *r, const char *name, const char *callers) {
    gw_registry_add_function(s, r, name, GW_POOL, NULL, run_function);
    if (callers) gw_registry_allow(s, r, name, callers);
}

static void add_class(gw_scope *s, gw_registry *r, const char *name, const char *callers) {
    gw_registry_add_class(
        s, r, name,
        (gw_class_options){ .size = sizeof(served), .open = open_object, .close = close_object });
    if (callers) gw_registry_allow(s, r, name, callers);
}

// A list of (name, callers or None).
static bool add_functions(gw_scope *s, gw_registry *r, PyObject *functions) {
    for (Py_ssize_t i = 0; i < PyList_Size(functions); i++) {
        const char *name, *callers;
        if (!PyArg_ParseTuple(PyList_GetItem(functions, i), "sz", &name, &callers)) return false;
        add_function(s, r, name, callers);
    }
    return true;
}

// A list of (name, callers or None, names of methods).
static bool add_classes(gw_scope *s, gw_registry *r, PyObject *classes) {
    for (Py_ssize_t i = 0; i < PyList_Size(classes); i++) {
        const char *name, *callers;
        PyObject *methods;
        if (!PyArg_ParseTuple(PyList_GetItem(classes, i), "szO!", &name, &callers, &PyList_Type,
                              &methods))
            return false;
        add_class(s, r, name, callers);
        for (Py_ssize_t j = 0; j < PyList_Size(methods); j++) {
            const char *method = PyUnicode_AsUTF8AndSize(PyList_GetItem(methods, j), NULL);
            if (!method) return false;
            gw_registry_add_method(s, r, name, method, GW_POOL, NULL, run_method);
        }
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(class_names, text) < 0) return false;
        Py_DECREF(text);
    }
    return true;
}

static void add_pickled(gw_scope *s, gw_registry *r) {
    add_function(s, r, "py.call", NULL);
    add_class(s, r, "py.object", NULL);
    static const char *const methods[] = { "call", "fetch", "_py_id" };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        gw_registry_add_method(s, r, "py.object", methods[i], GW_POOL, NULL, run_method);
}

bool serve_register(gw_scope *root, gw_registry *r, PyObject *functions, PyObject *classes,
                    bool pickles) {
    Py_XDECREF(class_names);
    class_names = PyList_New(0);
    if (!class_names || !add_functions(root, r, functions) || !add_classes(root, r, classes))
        return false;
    if (pickles) add_pickled(root, r);
    capi_register(root, r);
    return gw_ok(root) || raise_scope(root);
}

// ---- Objects of this worker ---------------------------------------------------------------------------
static served *find_object(gw_scope *s, gw_rref *r) {
    for (Py_ssize_t i = 0; i < PyList_Size(class_names); i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyList_GetItem(class_names, i), NULL);
        served *found;
        interrupt wait;
        interrupt_begin(s, &wait);
        gw_scope_clear(s);
        found = gw_local_with(s, r, name);
        interrupt_end(s, &wait);
        if (found || gw_scope_error(s)->status != GW_INVALID) return found;
    }
    return NULL;
}

PyObject *served_object(gw_scope *s, gw_rref *r) {
    served *found = find_object(s, r);
    if (found) return Py_NewRef(found->object);
    if (!gw_ok(s) && gw_scope_error(s)->status != GW_INVALID) return raise_scope(s);
    gw_value v;
    interrupt wait;
    interrupt_begin(s, &wait);
    gw_scope_clear(s);
    v = gw_rref_local_value(s, r);
    interrupt_end(s, &wait);
    return gw_ok(s) ? object_of_value(s, v, true) : raise_scope(s);
}
