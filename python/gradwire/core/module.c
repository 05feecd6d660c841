// The module gradwire._core: its functions, and what the Python part gives to it.
#include "core.h"

core_hooks hooks;

static PyMethodDef functions[] = {
    { "configure", (PyCFunction)(void (*)(void))core_configure, METH_VARARGS | METH_KEYWORDS,
      NULL },
    { "init", (PyCFunction)(void (*)(void))core_init, METH_VARARGS | METH_KEYWORDS, NULL },
    { "shutdown", core_shutdown, METH_VARARGS, NULL },
    { "leave", core_leave, METH_NOARGS, NULL },
    { "fail", core_fail, METH_VARARGS, NULL },
    { "end", core_end, METH_NOARGS, NULL },
    { "is_initialized", core_is_initialized, METH_NOARGS, NULL },
    { "call", core_call, METH_VARARGS, NULL },
    { "self", core_self, METH_NOARGS, NULL },
    { "worker", core_worker, METH_VARARGS, NULL },
    { "workers", core_workers, METH_VARARGS, NULL },
    { "path", core_path, METH_VARARGS, NULL },
    { "stats", core_stats, METH_NOARGS, NULL },
    { "future", core_future, METH_NOARGS, NULL },
    { "wait_any", core_wait_any, METH_VARARGS, NULL },
    { "member_lost", core_member_lost, METH_VARARGS, NULL },
    { "named", core_named, METH_VARARGS, NULL },
    { "owned_count", core_owned_count, METH_NOARGS, NULL },
    { "references", core_references, METH_NOARGS, NULL },
    { "empty", core_empty, METH_VARARGS, NULL },
    { "tensor", core_tensor, METH_VARARGS, NULL },
    { "group", core_group, METH_VARARGS, NULL },
    { "join_group", core_join_group, METH_VARARGS, NULL },
    { "collective", core_collective, METH_VARARGS, NULL },
    { 0 },
};

// configure(name=hook, ...): the functions and classes of the Python part, all of them, once.
PyObject *core_configure(PyObject *module, PyObject *args, PyObject *names) {
    (void)module;
    static char *keywords[] = { "call",         "open",        "method", "make_error",
                                "encode_error", "array",       "worker", "future",
                                "rref",         "main_thread", NULL };
    PyObject *main_thread, **slots = (PyObject **)(void *)&hooks;
    if (!PyArg_ParseTupleAndKeywords(args, names, "OOOOOOOOOO", keywords, &hooks.call, &hooks.open,
                                     &hooks.method, &hooks.make_error, &hooks.encode_error,
                                     &hooks.array, &hooks.worker, &hooks.future, &hooks.rref,
                                     &main_thread))
        return NULL;
    for (size_t i = 0; i < sizeof hooks / sizeof *slots; i++) Py_INCREF(slots[i]);
    return wait_is_main(main_thread) ? Py_NewRef(Py_None) : NULL;
}

// The library has one agent, one log and one set of threads for a process, and this module one set of types.
static bool is_first_import(void) {
    static bool is_imported;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "gradwire cannot be imported in a sub-interpreter");
        return false;
    }
    if (is_imported) PyErr_SetString(PyExc_ImportError, "gradwire._core can be imported only once");
    bool is_first = !is_imported;
    is_imported = true;
    return is_first;
}

static int fill_module(PyObject *m) {
    bool is_filled = is_first_import() && tensors_add_types(m) && futures_add_types(m) &&
                     references_add_types(m) && groups_add_types(m) && capi_add(m) &&
                     PyModule_AddStringConstant(m, "version", gw_version()) == 0;
    return is_filled ? 0 : -1;
}

// In phases, so that each interpreter fills the module anew.
static PyModuleDef_Slot slots[] = { { Py_mod_exec, fill_module }, { 0, NULL } };
static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "gradwire._core",
                                         .m_methods = functions, .m_slots = slots };

PyMODINIT_FUNC PyInit__core(void) {
    return PyModuleDef_Init(&definition);
}
