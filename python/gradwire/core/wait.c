// Waits: without the GIL, and ended by signals that Python handles.
#include "core.h"

static unsigned long main_thread;

bool wait_is_main(PyObject *ident) {
    main_thread = PyLong_AsUnsignedLong(ident);
    return !PyErr_Occurred();
}

// Only the main thread of Python handles signals. Without the GIL.
static bool must_end(void *context) {
    interrupt *i = context;
    PyEval_RestoreThread(i->saved);
    bool is_set = PyErr_CheckSignals() < 0;
    i->saved = PyEval_SaveThread();
    return is_set;
}

void interrupt_begin(gw_scope *s, interrupt *i) {
    if (PyThread_get_thread_ident() == main_thread) gw_scope_set_interrupt(s, must_end, i);
    i->saved = PyEval_SaveThread();
}

void interrupt_end(gw_scope *s, interrupt *i) {
    PyEval_RestoreThread(i->saved);
    gw_scope_set_interrupt(s, NULL, NULL);
    // What it waited for may have arrived while the handler of a signal ran, which has raised an exception.
    if (PyErr_Occurred()) gw_fail(s, GW_CANCELLED, "interrupted by a signal");
}
