// The GIL on threads of the library, and objects that are released on any thread.
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

// ---- Entering Python -----------------------------------------------------------------------------
// A thread of the library keeps its state of Python until it ends, so that entering costs no allocation, and
// threading.local and profilers see one thread.
static pthread_key_t thread_key;  // of that state
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool is_ended;

static void end_thread(void *state) {
    if (is_ended || agent_is_forked()) return;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state);
    PyEval_SaveThread();
    PyThreadState_Delete(state);
}

static void name_thread(void) {
    static int count;
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading ? PyObject_CallMethod(threading, "current_thread", NULL) : NULL;
    PyObject *name = thread ? PyUnicode_FromFormat("gradwire-pool-%d", count++) : NULL;
    if (!name || PyObject_SetAttrString(thread, "name", name) < 0) PyErr_Clear();
    Py_XDECREF(threading);
    Py_XDECREF(thread);
    Py_XDECREF(name);
}

static void open_key(void) {
    pthread_key_create(&thread_key, end_thread);
}

bool gil_enter(PyGILState_STATE *out_state) {
    if (is_ended) return false;
    pthread_once(&once, open_key);
    bool is_new = !PyGILState_GetThisThreadState();
    *out_state = PyGILState_Ensure();
    if (is_new) {
        PyGILState_Ensure();  // one count more than the thread has entered: its state stays
        pthread_setspecific(thread_key, PyGILState_GetThisThreadState());
        name_thread();
    }
    release_waiting();
    return true;
}

void gil_leave(PyGILState_STATE state) {
    PyGILState_Release(state);
}

PyObject *core_end(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    is_ended = true;
    Py_RETURN_NONE;
}

// ---- Releasing on any thread ----------------------------------------------------------------------
typedef struct release {
    struct release *next;
    void *buffer;
    PyObject *object;
} release;

static _Atomic(release *) waiting;  // a stack

static int release_pending(void *unused) {
    (void)unused;
    release_waiting();
    return 0;
}

// Without memory for the entry, the object is not released.
static void release_later(void *buffer, PyObject *object) {
    if (is_ended || agent_is_forked()) return;
    release *r = malloc(sizeof *r);
    if (!r) return;
    release *before = waiting;
    *r = (release){ .next = before, .buffer = buffer, .object = object };
    while (!atomic_compare_exchange_weak(&waiting, &before, r)) r->next = before;
    if (!before) Py_AddPendingCall(release_pending, NULL);
}

void release_buffer_later(void *buffer) {
    release_later(buffer, NULL);
}

void release_object_later(PyObject *object) {
    release_later(NULL, object);
}

void release_waiting(void) {
    if (!waiting) return;
    release *r = atomic_exchange(&waiting, NULL);
    while (r) {
        release *next = r->next;
        if (r->buffer) {
            PyBuffer_Release(r->buffer);
            free(r->buffer);
        }
        Py_XDECREF(r->object);
        free(r);
        r = next;
    }
}
