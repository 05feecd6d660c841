// Errors of the library as exceptions, and exceptions as errors.
#include "core.h"

#include <string.h>

// Texts of other workers may have any bytes.
static PyObject *text_object(const char *text) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *raise_error(gw_scope *s, const gw_error *error) {
    if (PyErr_Occurred()) return NULL;  // such as KeyboardInterrupt, which has ended a wait
    PyObject *value = s ? object_of_value(s, gw_error_value(s, error), false) : Py_NewRef(Py_None);
    bool is_of_call = error->outcome != GW_OUTCOME_NONE;
    PyObject *exception =
        value ? PyObject_CallFunction(hooks.make_error, "szNNNN", gw_status_name(error->status),
                                      is_of_call ? gw_outcome_name(error->outcome) : NULL,
                                      text_object(error->worker), text_object(error->function),
                                      text_object(error->text), value)
              : NULL;
    if (!exception) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
    return NULL;
}

PyObject *raise_scope(gw_scope *s) {
    gw_error error = *gw_scope_error(s);
    raise_error(s, &error);
    gw_scope_clear(s);
    return NULL;
}

PyObject *raise_status(gw_status status, const char *text) {
    gw_error error = { .status = status };
    strncpy(error.text, text, sizeof error.text - 1);
    return raise_error(NULL, &error);
}

// The exception that is set, with its traceback; clears it.
static PyObject *take_exception(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

void fail_with_exception(gw_scope *s) {
    PyObject *exception = take_exception();
    PyObject *encoded = PyObject_CallFunctionObjArgs(hooks.encode_error, exception, NULL);
    Py_XDECREF(exception);
    const char *text;
    PyObject *bytes;
    gw_value value = gw_none();
    if (!encoded || !PyArg_ParseTuple(encoded, "sO", &text, &bytes)) {
        PyErr_WriteUnraisable(hooks.encode_error);
        gw_fail(s, GW_REMOTE, "an exception that cannot be described");
    } else {
        char *data;
        Py_ssize_t size;
        if (bytes != Py_None && !PyBytes_AsStringAndSize(bytes, &data, &size))
            value = gw_value_of_bytes(data, (size_t)size);
        gw_fail_with_value(s, GW_REMOTE, value, "%s", text);
    }
    Py_XDECREF(encoded);
}
