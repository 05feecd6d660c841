// Tensors: memory of the library with the buffer protocol, and buffers of Python as tensors.
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { LENT_BYTES_MIN = 8192 };

typedef struct tensor_object {
    handle_object base;
    // The first buffer decides where the elements are for good, since numpy keeps the address of a buffer.
    void *data;         // where writable buffers point
    bool is_read;       // where the elements were when they arrived; all buffers are read-only
    bool is_frozen;     // the program writes to |data| no more
    Py_ssize_t *shape;  // of buffers, followed by strides; NULL: there was none
} tensor_object;

PyTypeObject *tensor_type;

// ---- Element types --------------------------------------------------------------------------------
// The format of the module struct; bf16 has none.
static const char *const formats[GW_DTYPE_COUNT] = {
    [GW_F32] = "f", [GW_F64] = "d", [GW_F16] = "e", [GW_I64] = "q",  [GW_I32] = "i",
    [GW_I16] = "h", [GW_I8] = "b",  [GW_U8] = "B",  [GW_BOOL8] = "?"
};

static bool dtype_of_format(const char *format, Py_ssize_t size, gw_dtype *out) {
    const char *plain = format ? format : "B";
    if (*plain == '@' || *plain == '=' || *plain == '<') plain++;
    if (!strcmp(plain, "l")) plain = size == 8 ? "q" : "i";
    for (int i = 0; i < GW_DTYPE_COUNT; i++) {
        *out = (gw_dtype)i;
        if (formats[i] && !strcmp(plain, formats[i]) && (size_t)size == gw_dtype_size(*out))
            return true;
    }
    PyErr_Format(PyExc_TypeError, "no tensor has elements of the format \"%s\"", format);
    return false;
}

static bool dtype_of_name(const char *name, gw_dtype *out) {
    for (int i = 0; i < GW_DTYPE_COUNT; i++) {
        *out = (gw_dtype)i;
        if (!strcmp(name, gw_dtype_name(*out))) return true;
    }
    PyErr_Format(PyExc_TypeError, "\"%s\" is no dtype", name);
    return false;
}

// ---- Buffers of Python as tensors -------------------------------------------------------------------
static void release_buffer(void *context) {
    release_buffer_later(context);
}

// A view of memory that the program has promised not to write. Memory of the library, as of gradwire.empty, is sent
// without a copy.
static gw_tensor *view_buffer(gw_scope *s, gw_dtype dtype, gw_shape shape, PyObject *x,
                              const Py_buffer *b) {
    gw_tensor *known = gw_from_lendable(s, dtype, b->buf, shape);
    if (known) return known;
    Py_buffer *kept = malloc(sizeof *kept);
    if (!kept) return NULL;
    if (PyObject_GetBuffer(x, kept, PyBUF_FULL_RO) < 0) {
        free(kept);
        return NULL;
    }
    return gw_from_blob(s, dtype, kept->buf, shape, release_buffer, kept);
}

static gw_tensor *copy_buffer(gw_scope *s, gw_dtype dtype, gw_shape shape, const Py_buffer *b) {
    if (PyBuffer_IsContiguous(b, 'C')) return gw_from_with(s, dtype, b->buf, shape);
    gw_tensor *t = gw_uninitialized(s, dtype, shape);
    void *data = gw_data_for_write(s, t);
    return data && PyBuffer_ToContiguous(data, b, b->len, 'C') < 0 ? NULL : t;
}

static gw_tensor *tensor_of_buffer(gw_scope *s, PyObject *x, const Py_buffer *b, gw_dtype dtype) {
    int64_t sizes[GW_DIMS_MAX];
    if (b->ndim > GW_DIMS_MAX) {
        PyErr_Format(PyExc_ValueError, "an array of %d dimensions, at most %d", b->ndim,
                     GW_DIMS_MAX);
        return NULL;
    }
    for (int i = 0; i < b->ndim; i++) sizes[i] = b->shape[i];
    gw_shape shape = { b->ndim, sizes };
    bool is_lent = b->readonly && b->len >= LENT_BYTES_MIN && PyBuffer_IsContiguous(b, 'C');
    return is_lent ? view_buffer(s, dtype, shape, x, b) : copy_buffer(s, dtype, shape, b);
}

// A tensor that Python code may still write to is copied, as any other array is.
static bool is_shared(PyObject *x) {
    if (!PyObject_TypeCheck(x, tensor_type)) return false;
    const tensor_object *t = (tensor_object *)(void *)x;
    return t->is_frozen || !t->data;
}

bool value_of_buffer(gw_scope *s, PyObject *x, gw_value *out) {
    if (is_shared(x)) {
        *out = gw_value_of_tensor((gw_tensor *)gw_keep_handle(s, handle_of(x)));
        return true;
    }
    Py_buffer b;
    gw_dtype dtype;
    if (PyObject_GetBuffer(x, &b, PyBUF_FULL_RO) < 0) return false;
    gw_tensor *t =
        dtype_of_format(b.format, b.itemsize, &dtype) ? tensor_of_buffer(s, x, &b, dtype) : NULL;
    PyBuffer_Release(&b);
    if (!t || !gw_ok(s)) {
        if (!gw_ok(s))
            raise_scope(s);
        else if (!PyErr_Occurred())
            PyErr_NoMemory();
        return false;
    }
    *out = gw_value_of_tensor(t);
    return true;
}

// ---- Tensors as objects of Python ------------------------------------------------------------------
PyObject *tensor_object_open(gw_tensor *t) {
    return handle_object_open(tensor_type, (gw_handle *)t);
}

static gw_tensor *tensor_of(PyObject *self) {
    return (gw_tensor *)handle_of(self);
}

// Moves the elements if a message or another worker still needs the old ones.
static void *data_for_write(tensor_object *t) {
    if (t->data) return t->data;
    gw_scope *s = gw_scope_open(NULL);
    t->data = gw_data_for_write(s, (gw_tensor *)t->base.handle);
    if (!t->data) raise_scope(s);
    gw_error error = gw_scope_close(s);
    (void)error;
    return t->data;
}

static bool fill_shape(tensor_object *o, const gw_tensor *t) {
    int dims = gw_dims(t);
    Py_ssize_t size = (Py_ssize_t)gw_dtype_size(gw_dtype_of(t));
    if (!o->shape) o->shape = malloc((size_t)(2 * dims + 1) * sizeof *o->shape);
    for (int i = 0; o->shape && i < dims; i++) {
        o->shape[i] = (Py_ssize_t)gw_size(t, i);
        o->shape[dims + i] = (Py_ssize_t)gw_stride(t, i) * size;
    }
    return o->shape;
}

static int refuse_buffer(const char *text) {
    PyErr_SetString(PyExc_BufferError, text);
    return -1;
}

static bool has_buffer(const gw_tensor *t) {
    return formats[gw_dtype_of(t)] && gw_layout_of(t) == GW_STRIDED && gw_is_contiguous(t);
}

static void *find_data(tensor_object *o, const gw_tensor *t, bool is_written) {
    static char nothing[1];
    if (!gw_numel(t)) return nothing;
    if (is_written) return data_for_write(o);
    o->is_read = !o->data;
    return o->data ? o->data : (void *)gw_data(t);
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    tensor_object *o = (tensor_object *)(void *)self;
    gw_tensor *t = tensor_of(self);
    gw_dtype dtype = gw_dtype_of(t);
    int dims = gw_dims(t);
    bool has_shape = flags & PyBUF_ND, has_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    view->obj = NULL;
    if (!has_buffer(t)) return refuse_buffer("no buffer has the elements of this tensor");
    if ((flags & PyBUF_WRITABLE) && (o->is_frozen || o->is_read))
        return refuse_buffer("the tensor is read-only");
    if (!fill_shape(o, t)) return refuse_buffer("no memory for a buffer");
    void *data = find_data(o, t, flags & PyBUF_WRITABLE);
    if (!data) return -1;
    Py_ssize_t size = (Py_ssize_t)gw_dtype_size(dtype);
    *view = (Py_buffer){ .buf = data,
                         .obj = Py_NewRef(self),
                         .len = (Py_ssize_t)gw_numel(t) * size,
                         .itemsize = size,
                         .readonly = o->is_frozen || o->is_read,
                         .ndim = has_shape ? dims : 1,
                         .format = flags & PyBUF_FORMAT ? (char *)formats[dtype] : NULL,
                         .shape = has_shape ? o->shape : NULL,
                         .strides = has_strides ? o->shape + dims : NULL };
    return 0;
}

static void dealloc(PyObject *self) {
    free(((tensor_object *)(void *)self)->shape);
    handle_object_dealloc(self);
}

static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(gw_dtype_name(gw_dtype_of(tensor_of(self))));
}

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    int dims = gw_dims(tensor_of(self));
    PyObject *out = PyTuple_New(dims);
    for (int i = 0; out && i < dims; i++)
        PyTuple_SetItem(out, i, PyLong_FromLongLong(gw_size(tensor_of(self), i)));
    return out;
}

static PyObject *get_size_bytes(PyObject *self, void *unused) {
    (void)unused;
    const gw_tensor *t = tensor_of(self);
    return PyLong_FromLongLong(gw_numel(t) * (long long)gw_dtype_size(gw_dtype_of(t)));
}

static PyObject *freeze(PyObject *self, PyObject *unused) {
    (void)unused;
    ((tensor_object *)(void *)self)->is_frozen = true;
    Py_RETURN_NONE;
}

static PyObject *get_is_frozen(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((tensor_object *)(void *)self)->is_frozen);
}

static PyMethodDef methods[] = {
    { "freeze", freeze, METH_NOARGS, "Makes the tensor read-only from now on." },
    { 0 },
};
static PyGetSetDef members[] = {
    { "dtype", get_dtype, NULL, "The name of the element type, \"f32\".", NULL },
    { "shape", get_shape, NULL, "The sizes, a tuple of int.", NULL },
    { "nbytes", get_size_bytes, NULL, "The size of the elements in bytes.", NULL },
    { "is_frozen", get_is_frozen, NULL, "Whether freeze was called.", NULL },
    { 0 },
};
static PyType_Slot slots[] = {
    { Py_tp_dealloc, dealloc },
    { Py_tp_methods, methods },
    { Py_tp_getset, members },
    { Py_bf_getbuffer, get_buffer },
    { Py_tp_doc, "Elements in memory of the library, with the buffer protocol." },
    { 0 },
};
static PyType_Spec spec = { "gradwire._core.Tensor", sizeof(tensor_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };

bool tensors_add_types(PyObject *module) {
    tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return tensor_type && PyModule_AddObjectRef(module, "Tensor", (PyObject *)tensor_type) == 0;
}

// ---- Making ---------------------------------------------------------------------------------------
static bool read_shape(PyObject *sizes, int64_t *out, int *out_count) {
    Py_ssize_t count = PySequence_Size(sizes);
    if (count < 0) return false;
    if (count > GW_DIMS_MAX) {
        PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions, at most %d", count, GW_DIMS_MAX);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sizes, i);
        out[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return false;
    }
    *out_count = (int)count;
    return true;
}

// empty(sizes, dtype): a tensor of zeros, with writable buffers.
PyObject *core_empty(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *sizes;
    const char *name;
    int64_t shape[GW_DIMS_MAX];
    int count;
    gw_dtype dtype;
    if (!PyArg_ParseTuple(args, "Os", &sizes, &name) || !read_shape(sizes, shape, &count) ||
        !dtype_of_name(name, &dtype))
        return NULL;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *t = gw_zeros_with(s, dtype, (gw_shape){ count, shape });
    PyObject *out = gw_ok(s) ? tensor_object_open(t) : raise_scope(s);
    gw_error error = gw_scope_close(s);
    (void)error;
    if (out && gw_numel(tensor_of(out)) && has_buffer(tensor_of(out)) &&
        !data_for_write((tensor_object *)(void *)out))
        Py_CLEAR(out);
    return out;
}

// tensor(buffer): a tensor of the elements of |buffer|, which are copied unless the buffer is read-only.
PyObject *core_tensor(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x;
    if (!PyArg_ParseTuple(args, "O", &x)) return NULL;
    gw_value v;
    gw_scope *s = gw_scope_open(NULL);
    PyObject *out = value_of_buffer(s, x, &v) ? tensor_object_open(v.as.tensor) : NULL;
    gw_error error = gw_scope_close(s);
    (void)error;
    return out;
}
