"""gradwire's operators for Python, through ctypes, as gradwire/binding.h has them."""

import ctypes as c
import struct

import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool]
NONE, BOOL, INT, FLOAT, _, _, TENSOR, LIST = range(8)


class Shape(c.Structure):
    _fields_ = [("count", c.c_int), ("sizes", c.POINTER(c.c_int64))]


class Value(c.Structure):
    """A gw_value; |bits| is its union."""
    _fields_ = [("kind", c.c_int), ("rank", c.c_int), ("bits", c.c_uint64), ("size", c.c_uint64)]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("outcome", c.c_int), ("worker", c.c_char * 128),
                ("function", c.c_char * 128), ("text", c.c_char * 768)]


class Plain(c.Structure):
    """Room for gw_backward_options, of which all defaults are 0."""
    _fields_ = [("room", c.c_uint64 * 8)]


class Refused(Exception):
    """What an operator says of arguments that it does not take."""


class Library:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        scope, tensor, handle = c.c_void_p, c.c_void_p, c.c_void_p
        for name, result, arguments in (
            ("gw_scope_open", scope, [scope]),
            ("gw_scope_close", Error, [scope]),
            ("gw_scope_error", c.POINTER(Error), [scope]),
            ("gw_from_with", tensor, [scope, c.c_int, c.c_void_p, Shape]),
            ("gw_operator_find", c.c_void_p, [c.c_char_p]),
            ("gw_operator_call", Value, [scope, c.c_void_p, c.POINTER(Value), c.c_int]),
            ("gw_list_open", handle, [scope]),
            ("gw_list_add_with", None, [scope, handle, Value]),
            ("gw_list_count", c.c_int, [handle]),
            ("gw_list_get", Value, [scope, handle, c.c_int]),
            ("gw_dims", c.c_int, [tensor]),
            ("gw_size", c.c_int64, [tensor, c.c_int]),
            ("gw_numel", c.c_int64, [tensor]),
            ("gw_dtype_of", c.c_int, [tensor]),
            ("gw_data", c.c_void_p, [tensor]),
            ("gw_requires_grad", tensor, [scope, tensor]),
            ("gw_needs_grad", c.c_bool, [tensor]),
            ("gw_grad", tensor, [scope, tensor]),
            ("gw_backward_with", None, [scope, tensor, Plain]),
        ):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name[3:], function)


class Scope:
    """A gw_scope, and what is done in it. Tensors are their addresses."""

    def __init__(self, library):
        self.gw = library
        self.s = library.scope_open(None)

    def close(self):
        self.gw.scope_close(self.s)

    def check(self):
        error = self.gw.scope_error(self.s)
        if error and error.contents.status:
            raise Refused(error.contents.text.decode())

    def tensor(self, x):
        """A copy of a tensor of PyTorch."""
        x = x.detach().contiguous()
        sizes = (c.c_int64 * max(1, x.dim()))(*x.shape)
        out = self.gw.from_with(self.s, DTYPES.index(x.dtype), x.data_ptr() or None,
                                Shape(x.dim(), sizes))
        self.check()
        return out

    def numbers(self, x):
        """A copy for PyTorch."""
        x = self.call("contiguous", [Value(TENSOR, 0, x, 0)])[0]
        shape = [self.gw.size(x, i) for i in range(self.gw.dims(x))]
        out = torch.empty(shape, dtype=DTYPES[self.gw.dtype_of(x)])
        if out.numel():
            c.memmove(out.data_ptr(), self.gw.data(x), out.numel() * out.element_size())
        return out

    def value(self, x):
        """A number, a dtype, a list or None as a gw_value."""
        if x is None:
            return Value(NONE, 0, 0, 0)
        if isinstance(x, torch.dtype):
            return Value(INT, 0, DTYPES.index(x), 0)
        if isinstance(x, bool):
            return Value(BOOL, 0, int(x), 0)
        if isinstance(x, int):
            return Value(INT, 0, x & (2**64 - 1), 0)
        if isinstance(x, float):
            return Value(FLOAT, 0, struct.unpack("Q", struct.pack("d", x))[0], 0)
        if isinstance(x, Value):
            return x
        out = self.gw.list_open(self.s)
        for item in x:
            self.gw.list_add_with(self.s, out, self.value(item))
        return Value(LIST, 0, out, 0)

    def call(self, name, args):
        """The results of an operator, as tensors."""
        values = (Value * max(1, len(args)))(*[self.value(a) for a in args])
        operator = self.gw.operator_find(name.encode())
        v = self.gw.operator_call(self.s, operator, values, len(args))
        self.check()
        if v.kind == LIST:
            count = self.gw.list_count(v.bits)
            return [self.gw.list_get(self.s, v.bits, i).bits for i in range(count)]
        if v.kind != TENSOR:
            return [self.tensor(torch.tensor(bool(v.bits)))]
        return [v.bits]

    def backward(self, results, gradients):
        """Adds up what |gradients| of |results| lead to."""
        loss = None
        for y, d in zip(results, gradients):
            part = self.call("mul", [Value(TENSOR, 0, y, 0), Value(TENSOR, 0, self.tensor(d), 0)])[0]
            part = self.call("sum", [Value(TENSOR, 0, part, 0)])[0]
            loss = part if loss is None else self.call(
                "add", [Value(TENSOR, 0, loss, 0), Value(TENSOR, 0, part, 0)])[0]
        self.gw.backward_with(self.s, loss, Plain())
        self.check()
