// Collectives and messages of a group, as futures. The Python part converts arrays to tensors and back, and waits.
#include "core.h"

#include <string.h>

typedef struct collective {
    gw_scope *scope;
    gw_group *group;
    gw_value x;  // what this member contributes: a tensor, a list, any value, or none
    gw_reduce_op op;
    int peer;  // the root, or the other member of a message
    gw_collective_options options;
} collective;

static gw_tensor *tensor_of(const collective *c) {
    return c->x.kind == GW_TENSOR ? c->x.as.tensor : NULL;
}

static gw_list *list_of(const collective *c) {
    return c->x.kind == GW_LIST ? c->x.as.list : NULL;
}

static gw_message_options message_options(const collective *c) {
    return GW_OPTIONS(gw_message_options, .tag = (int64_t)c->options.key,
                      .timeout_ms = c->options.timeout_ms, .origin = c->options.origin);
}

// ---- One function for each operation ----------------------------------------------------------------
#define OPERATION(name, call)                                                                      \
    static gw_future *name(const collective *c) {                                                  \
        return call;                                                                               \
    }

OPERATION(all_reduce, gw_all_reduce_async_with(c->scope, c->group, tensor_of(c), c->op, c->options))
OPERATION(reduce,
          gw_reduce_async_with(c->scope, c->group, tensor_of(c), c->op, c->peer, c->options))
OPERATION(broadcast, gw_broadcast_async_with(c->scope, c->group, tensor_of(c), c->peer, c->options))
OPERATION(all_gather, gw_all_gather_async_with(c->scope, c->group, tensor_of(c), c->options))
OPERATION(all_gather_list,
          gw_all_gather_list_async_with(c->scope, c->group, tensor_of(c), c->options))
OPERATION(gather, gw_gather_to_async_with(c->scope, c->group, tensor_of(c), c->peer, c->options))
OPERATION(scatter, gw_scatter_from_async_with(c->scope, c->group, list_of(c), c->peer, c->options))
OPERATION(reduce_scatter,
          gw_reduce_scatter_async_with(c->scope, c->group, tensor_of(c), c->op, c->options))
OPERATION(all_to_all, gw_all_to_all_async_with(c->scope, c->group, tensor_of(c), c->options))
OPERATION(barrier, gw_barrier_async_with(c->scope, c->group, c->options))
OPERATION(monitored_barrier, gw_monitored_barrier_async_with(c->scope, c->group, c->options))
OPERATION(all_gather_value, gw_all_gather_value_async_with(c->scope, c->group, c->x, c->options))
OPERATION(gather_value,
          gw_gather_value_to_async_with(c->scope, c->group, c->x, c->peer, c->options))
OPERATION(broadcast_value,
          gw_broadcast_value_async_with(c->scope, c->group, c->x, c->peer, c->options))
OPERATION(scatter_value,
          gw_scatter_value_from_async_with(c->scope, c->group, list_of(c), c->peer, c->options))
OPERATION(send_to, gw_isend_with(c->scope, c->group, tensor_of(c), c->peer, message_options(c)))
OPERATION(receive, gw_irecv_with(c->scope, c->group, c->peer, message_options(c)))
OPERATION(receive_any, gw_irecv_any_with(c->scope, c->group, message_options(c)))

static const struct {
    const char *name;
    gw_future *(*run)(const collective *c);
} operations[] = {
    { "all_reduce", all_reduce },
    { "reduce", reduce },
    { "broadcast", broadcast },
    { "all_gather", all_gather },
    { "all_gather_list", all_gather_list },
    { "gather", gather },
    { "scatter", scatter },
    { "reduce_scatter", reduce_scatter },
    { "all_to_all", all_to_all },
    { "barrier", barrier },
    { "monitored_barrier", monitored_barrier },
    { "all_gather_value", all_gather_value },
    { "gather_value", gather_value },
    { "broadcast_value", broadcast_value },
    { "scatter_value", scatter_value },
    { "send", send_to },
    { "recv", receive },
    { "recv_any", receive_any },
};

static gw_future *start(const char *name, const collective *c) {
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(name, operations[i].name)) return operations[i].run(c);
    return NULL;
}

// ---- The function of the module -----------------------------------------------------------------------
static bool read_op(const char *name, gw_reduce_op *out) {
    static const char *const names[GW_REDUCE_OP_COUNT] = { "sum", "avg",  "product", "min",
                                                           "max", "band", "bor",     "bxor" };
    for (int i = 0; i < GW_REDUCE_OP_COUNT; i++) {
        *out = (gw_reduce_op)i;
        if (!strcmp(name, names[i])) return true;
    }
    PyErr_Format(PyExc_ValueError, "\"%s\" is none of sum, avg, product, min, max, band, bor, bxor",
                 name);
    return false;
}

static bool read_sizes(gw_scope *s, PyObject *sizes, const int64_t **out) {
    *out = NULL;
    if (sizes == Py_None) return true;
    Py_ssize_t count = PySequence_Size(sizes);
    int64_t *read = count < 0 ? NULL : gw_alloc(s, (size_t)(count + 1) * sizeof *read);
    for (Py_ssize_t i = 0; read && i < count; i++) {
        PyObject *item = PySequence_GetItem(sizes, i);
        read[i] = item ? PyLong_AsLongLong(item) : 0;
        Py_XDECREF(item);
    }
    *out = read;
    return read && !PyErr_Occurred();
}

static PyObject *run(gw_scope *s, const char *name, PyObject *x, const char *op, PyObject *sizes,
                     collective *c) {
    if (!read_op(op, &c->op) || !read_sizes(s, sizes, &c->options.sizes) ||
        !value_of_object(s, x, false, &c->x))
        return NULL;
    c->scope = s;
    gw_future *f;
    Py_BEGIN_ALLOW_THREADS
    f = start(name, c);
    Py_END_ALLOW_THREADS
    if (!gw_ok(s)) return raise_scope(s);
    if (!f) return PyErr_Format(PyExc_ValueError, "\"%s\" is no collective", name);
    return handle_object_open((PyTypeObject *)hooks.future, (gw_handle *)f);
}

// collective(group, name, x, op, peer, key, timeout_ms, factor, sizes): a Future. |key| is the tag of a message.
PyObject *core_collective(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *group, *x, *sizes;
    const char *name, *op;
    unsigned long long key;
    long long timeout_ms;
    collective c = { .options = GW_OPTIONS(gw_collective_options) };
    if (!PyArg_ParseTuple(args, "O!sOsiKLdO", group_type, &group, &name, &x, &op, &c.peer, &key,
                          &timeout_ms, &c.options.factor, &sizes))
        return NULL;
    c.group = (gw_group *)handle_of(group);
    c.options.key = key;
    c.options.timeout_ms = timeout_ms;
    gw_scope *s = scope_begin();
    if (!s) return NULL;
    PyObject *result = run(s, name, x, op, sizes, &c);
    scope_end(s);
    return result;
}
