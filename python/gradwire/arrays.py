"""Arrays: tensors of the library as arrays of numpy, and memory that other workers of the host can read in place."""
from __future__ import annotations

from typing import Any, Callable, Sequence, Union

from . import _core

try:
    import numpy
except ImportError:  # arrays are tensors then: objects with the buffer protocol
    numpy = None  # type: ignore[assignment]

_DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
           "int8": "i8", "uint8": "u8", "bool": "bool"}
_NUMPY_DTYPES = {ours: name for name, ours in _DTYPES.items()}


def as_array(tensor: _core.Tensor) -> Any:
    """Returns |tensor| as an array of numpy on the same memory; as it is without numpy, and for bf16."""
    if numpy is None or tensor.dtype == "bf16":
        return tensor
    dtype = _NUMPY_DTYPES[tensor.dtype]
    if 0 in tensor.shape:
        return numpy.empty(tensor.shape, dtype)
    return numpy.frombuffer(tensor, dtype).reshape(tensor.shape)


_readonly = False


def configure(readonly: bool) -> None:
    """Sets whether received arrays are read-only."""
    global _readonly
    _readonly = readonly


def received(tensor: _core.Tensor) -> Any:
    """Returns the array of a tensor that another worker has sent in a call by name, or in its reply."""
    if _readonly:
        tensor.freeze()
    return as_array(tensor)


def as_plain(value: Any, array: Callable[[_core.Tensor], Any] = as_array) -> Any:
    """Returns |value| with its tensors as arrays, made by |array|."""
    if isinstance(value, _core.Tensor):
        return array(value)
    if isinstance(value, list):
        return [as_plain(item, array) for item in value]
    if isinstance(value, dict):
        return {key: as_plain(item, array) for key, item in value.items()}
    return value


def received_plain(value: Any) -> Any:
    """As as_plain, with arrays of ``received``."""
    return as_plain(value, received)


def empty(shape: Union[int, Sequence[int]], dtype: Any = "float32") -> Any:
    """Makes an array of zeros in memory that other workers of this host can read in place.

    After ``freeze`` the array is sent without a copy.

        x = gw.empty((1024, 1024))
        x[:] = frame
        gw.rpc_async("worker1", show, (gw.freeze(x),))

    dtype: a name, "float32" or "bf16", or a dtype of numpy.
    """
    name = str(numpy.dtype(dtype)) if numpy is not None and not isinstance(dtype, str) else str(dtype)
    sizes = [shape] if isinstance(shape, int) else list(shape)
    return as_array(_core.empty(sizes, _DTYPES.get(name, name)))


def freeze(x: Any) -> Any:
    """Makes |x|, an array of ``empty``, read-only from now on, and returns it."""
    base = x
    while not isinstance(base, _core.Tensor):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
        if base is None:
            raise TypeError("freeze takes an array made by empty")
    base.freeze()
    if numpy is not None and isinstance(x, numpy.ndarray):
        x.flags.writeable = False
    return x


def as_buffer(x: Any) -> Any:
    """Returns an object with the buffer protocol on the elements of |x|, such as a CPU tensor of torch."""
    try:
        memoryview(x)
        return x
    except TypeError:
        pass
    if hasattr(x, "detach") and hasattr(x, "numpy"):
        return x.detach().numpy()
    if hasattr(x, "__dlpack__") and numpy is not None:
        return numpy.from_dlpack(x)
    if numpy is not None and isinstance(x, (int, float, list, tuple)):
        return numpy.asarray(x)
    raise TypeError(f"an array is expected, not {type(x).__name__}")


def copy_to(x: Any, tensor: _core.Tensor) -> None:
    """Copies the elements of |tensor| to |x|, which has as many of the same type."""
    target = as_buffer(x)
    if numpy is not None and isinstance(target, numpy.ndarray):
        target[...] = numpy.asarray(tensor).reshape(target.shape)
        return
    view = memoryview(target)
    if not view.c_contiguous:
        raise TypeError("the result needs a contiguous buffer")
    view.cast("B")[:] = memoryview(tensor).cast("B")
