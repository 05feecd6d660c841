// The extension module gradwire._core: what the files of this folder share.
//
// The module converts between Python objects and values of gradwire, and releases the GIL around every function of the
// library that may block or take a lock. What can be written in Python is in the folder above: pickling, classes of
// errors, the names that programs use.
//
// Threads: every function is called with the GIL, unless its comment says otherwise.
#ifndef PYTHON_CORE_H
#define PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <gradwire.h>
#include <gradwire/binding.h>

// ---- hooks.c: functions and classes of the Python part, which it sets by configure ---------------
typedef struct core_hooks {
    PyObject *call;    // call(name, caller, args): runs a served function
    PyObject *open;    // open(name, caller, args): makes the object of a served class
    PyObject *method;  // method(object, name, caller, args); the name is "counter.add"
    PyObject
        *make_error;  // make_error(status, outcome, worker, function, text, value): an exception
    PyObject *encode_error;   // encode_error(exception): (text, bytes or None)
    PyObject *array;          // array(tensor): what users get for a tensor
    PyObject *worker;         // the class Worker
    PyObject *future, *rref;  // the classes Future and RRef, which extend those of this module
} core_hooks;
extern core_hooks hooks;

PyObject *core_configure(PyObject *module, PyObject *args, PyObject *names);

// ---- agent.c: the agent of this process ------------------------------------------------------------
// A scope for operations of this thread: inside the scope of the body that this thread runs, else of the agent's own.
// NULL: an exception is set. Every scope_begin has its scope_end.
gw_scope *scope_begin(void);
void scope_end(gw_scope *s);

// The same outside bodies, on any thread, with or without the GIL. NULL: there is no agent; no exception is set.
gw_scope *agent_begin(void);
void agent_end(gw_scope *s);  // without the GIL

// The scope of the body that this thread runs; NULL: none.
gw_scope *scope_of_body(void);
void scope_set_body(gw_scope *s);

bool agent_is_forked(
    void);  // this process is a child, made by fork, of the process that has joined

PyObject *core_init(PyObject *module, PyObject *args, PyObject *names);
PyObject *core_shutdown(PyObject *module, PyObject *args);
PyObject *core_leave(PyObject *module, PyObject *args);
PyObject *core_fail(PyObject *module, PyObject *args);
PyObject *core_is_initialized(PyObject *module, PyObject *args);

// ---- gil.c: the GIL on threads of the library ------------------------------------------------------
// Takes the GIL on a thread of the library. False: Python code may run no more, and the caller returns at once.
// Called without the GIL, or with it.
bool gil_enter(PyGILState_STATE *out_state);
void gil_leave(PyGILState_STATE state);
PyObject *core_end(PyObject *module, PyObject *args);  // from now on gil_enter returns false

// Releases a buffer, or an object, on any thread, with or without the GIL: when a thread next has the GIL.
void release_buffer_later(void *buffer);  // a Py_buffer in memory of malloc
void release_object_later(PyObject *object);
void release_waiting(void);

// ---- errors.c --------------------------------------------------------------------------------------
// Sets the exception of |error|, unless one is set already; returns NULL.
PyObject *raise_error(gw_scope *s, const gw_error *error);
PyObject *raise_scope(gw_scope *s);  // the error of |s|, which it clears
PyObject *raise_status(gw_status status, const char *text);
// Fails |s| with the exception that is set, which it clears.
void fail_with_exception(gw_scope *s);

// ---- handles.c: objects that hold a count of a handle ------------------------------------------------
typedef struct handle_object {
    PyObject_HEAD gw_handle *handle;
} handle_object;

extern PyTypeObject *tensor_type, *future_type, *rref_type, *group_type;

PyObject *handle_object_open(PyTypeObject *type, gw_handle *handle);
void handle_object_dealloc(PyObject *self);
static inline gw_handle *handle_of(PyObject *self) {
    return ((handle_object *)(void *)self)->handle;
}

// ---- wait.c ----------------------------------------------------------------------------------------
// A scope whose waits end when Python has a signal to handle: begin before the GIL is released, on the waiting thread.
typedef struct interrupt {
    PyThreadState *saved;
} interrupt;
void interrupt_begin(gw_scope *s, interrupt *i);  // releases the GIL
void interrupt_end(gw_scope *s, interrupt *i);    // takes it again
bool wait_is_main(PyObject *main_thread);         // sets the thread whose waits see signals

PyObject *core_wait_any(PyObject *module, PyObject *args);

// ---- values.c --------------------------------------------------------------------------------------
// A plain value is one that programs of other languages read, too: its tensors are arrays for users, and its futures
// have plain values. The other values are those of pickles.

// The value of |x|. False: an exception is set. Texts and bytes are borrowed from |x|.
bool value_of_object(gw_scope *s, PyObject *x, bool is_plain, gw_value *out);
// The same, with texts and bytes copied to |s|, and handles kept by it.
bool value_of_result(gw_scope *s, PyObject *x, bool is_plain, gw_value *out);
// As a new object; NULL: an exception is set.
PyObject *object_of_value(gw_scope *s, gw_value v, bool is_plain);
PyObject *objects_of_args(gw_scope *s, const gw_args *a, bool is_plain);
PyObject *object_of_worker(gw_worker w);
bool worker_of_object(PyObject *x,
                      gw_worker *out);  // a Worker, which is a tuple; its name is borrowed

// ---- tensors.c -------------------------------------------------------------------------------------
PyObject *tensor_object_open(gw_tensor *t);
bool value_of_buffer(gw_scope *s, PyObject *x, gw_value *out);
PyObject *core_empty(PyObject *module, PyObject *args);
PyObject *core_tensor(PyObject *module, PyObject *args);
bool tensors_add_types(PyObject *module);

// ---- serve.c: functions and classes that other workers call -------------------------------------------
// Fills |r| with the functions of the Python part. False: an exception is set.
bool serve_register(gw_scope *root, gw_registry *r, PyObject *functions, PyObject *classes,
                    bool pickles);
int serve_running(void);  // functions and methods that run for other workers now
PyObject *
served_object(gw_scope *s,
              gw_rref *r);  // of this worker, as a new reference; NULL: an exception is set

// ---- capi.c: for the extension module of gradwire.torch ------------------------------------------------
bool capi_add(PyObject *module);
void capi_register(gw_scope *s, gw_registry *r);  // what that module serves

// ---- calls.c, futures.c, references.c, groups.c ---------------------------------------------------------
bool target_of_object(PyObject *to, gw_target *out);
PyObject *core_call(PyObject *module, PyObject *args);
PyObject *core_self(PyObject *module, PyObject *args);
PyObject *core_worker(PyObject *module, PyObject *args);
PyObject *core_workers(PyObject *module, PyObject *args);
PyObject *core_path(PyObject *module, PyObject *args);
PyObject *core_stats(PyObject *module, PyObject *args);
PyObject *core_future(PyObject *module, PyObject *args);
PyObject *core_named(PyObject *module, PyObject *args);
PyObject *core_owned_count(PyObject *module, PyObject *args);
PyObject *core_references(PyObject *module, PyObject *args);
bool futures_add_types(PyObject *module);
bool references_add_types(PyObject *module);
bool groups_add_types(PyObject *module);
PyObject *core_group(PyObject *module, PyObject *args);
PyObject *core_join_group(PyObject *module, PyObject *args);
PyObject *core_collective(PyObject *module, PyObject *args);
PyObject *core_member_lost(PyObject *module, PyObject *args);

#endif
