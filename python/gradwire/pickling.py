"""Pickles of calls: a payload, and apart from it large buffers, references and futures as values of the library.

A buffer of at least 8 KiB (numpy, ``pickle.PickleBuffer``) is no part of the payload: it is sent as a tensor.
References and futures are values of their own, so that the library counts and passes them on.
"""
from __future__ import annotations

import copyreg
import io
import pickle
import struct
import threading
from typing import Any, Callable, Iterable, Optional

from . import _core
from .errors import UnsupportedError

_BUFFER_BYTES_MIN = 8192
_PAYLOAD_BYTES_MAX = 64 * 1024  # a larger one is sent as a tensor
_ITEMS_MAX = 1000  # values besides the payload: a call has at most 1,024 arguments


class _Loading(threading.local):
    items: list[Any] = []


_loading = _Loading()
_modules: Optional[frozenset[str]] = None  # those from which pickles may load; None: all
_readonly = False
_is_enabled = False


def configure(enabled: bool, modules: Optional[Iterable[str]], readonly: bool) -> None:
    """Sets what this worker loads, for the time until it leaves the job."""
    global _modules, _readonly, _is_enabled
    _is_enabled, _readonly = enabled, readonly
    _modules = None if modules is None else frozenset(modules)


def is_enabled() -> bool:
    """Returns whether this worker makes and loads pickles."""
    return _is_enabled


def check_enabled(instead: str) -> None:
    """Raises UnsupportedError if this worker makes no pickles; |instead|: what the program can do."""
    if not _is_enabled and _core.is_initialized():
        raise UnsupportedError(f"this worker makes no pickles (pickle=False): {instead}")


# ---- Writing ------------------------------------------------------------------------------------------
class _Items(list):  # type: ignore[type-arg]
    """What is sent with a payload."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[int] = []  # which of the items are buffers of the pickle, in its order

    def add_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Returns whether the buffer becomes part of the payload, as pickle asks for it."""
        raw = buffer.raw()
        if raw.nbytes < _BUFFER_BYTES_MIN or len(self) >= _ITEMS_MAX:
            return True
        self.buffers.append(len(self))
        self.append(raw)
        return False

    def add(self, kind: str, item: Any, state: Any) -> tuple[Any, ...]:
        if len(self) >= _ITEMS_MAX:
            raise ValueError(f"a call has more than {_ITEMS_MAX} references, futures and large buffers")
        self.append(item)
        return _item, (kind, len(self) - 1, state)


def dumps(x: Any) -> list[Any]:
    """Returns the payload and the items of |x|."""
    items = _Items()
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5, buffer_callback=items.add_buffer)
    pickler.dispatch_table = {**copyreg.dispatch_table, **{kind: _reducer(kind, items) for kind in _reducers}}
    pickler.dump(x)
    if items:
        # Behind the end of the pickle: a future among the items arrives as its value, which may be a tensor, too.
        file.write(struct.pack(f"<{len(items.buffers) + 1}H", *items.buffers, len(items.buffers)))
    payload = file.getbuffer()
    return [bytes(payload) if len(payload) <= _PAYLOAD_BYTES_MAX else payload.toreadonly(), *items]


def encode(x: Any) -> Any:
    """Returns |x| as one value: None, a payload, or a list of payload and items."""
    if x is None:
        return None
    values = dumps(x)
    return values[0] if len(values) == 1 else values


# ---- References and futures in pickles ------------------------------------------------------------------
#: Returns the item of an object, and what its loader needs besides.
Reduce = Callable[[Any], tuple[Any, Any]]
#: Returns a function that makes the object of its item.
Load = Callable[[Any], Callable[[Any], Any]]

_reducers: dict[type, Reduce] = {}
_loaders: dict[str, Load] = {}


def register(kind: type, reduce: Reduce, load: Load) -> None:
    """Makes objects of the class |kind| items."""
    _reducers[kind] = reduce
    _loaders[kind.__name__] = load


# A tensor that users have: bf16, or a buffer that was pickled as such. In a list: tensors among the items are buffers.
register(_core.Tensor, lambda tensor: ([tensor], None), lambda _: lambda item: item[0])


def _reducer(kind: type, items: _Items) -> Callable[[Any], tuple[Any, ...]]:
    reduce = _reducers[kind]
    return lambda x: items.add(kind.__name__, *reduce(x))


def _item(kind: str, index: int, state: Any) -> Any:
    """Called by a payload: the object of the item |index|."""
    return _loaders[kind](state)(_loading.items[index])


# ---- Reading ------------------------------------------------------------------------------------------
class _RestrictedUnpickler(pickle.Unpickler):
    """Loads classes and functions of the named modules alone. This finds mistakes; it is no sandbox."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = _modules or frozenset()
        if module == __name__ and name == "_item":
            return _item
        if module not in allowed and module.partition(".")[0] not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is in none of the modules given by pickle_modules")
        return super().find_class(module, name)


def _buffers(payload: memoryview, items: list[Any]) -> list[_core.Tensor]:
    (count,) = struct.unpack_from("<H", payload, len(payload) - 2)
    indices = struct.unpack_from(f"<{count}H", payload, len(payload) - 2 - 2 * count)
    tensors = [items[i] for i in indices]
    if _readonly:
        for t in tensors:
            t.freeze()
    return tensors


def loads(payload: Any, items: Iterable[Any] = ()) -> Any:
    """Loads what dumps has returned."""
    if not _is_enabled:
        raise pickle.UnpicklingError("this worker loads no pickles: it has joined with pickle=False")
    held = list(items)
    if not held and _modules is None:
        return pickle.loads(payload)
    before, _loading.items = _loading.items, held
    try:
        unpickler = pickle.Unpickler if _modules is None else _RestrictedUnpickler
        buffers = _buffers(memoryview(payload).cast("B"), held) if held else []
        return unpickler(io.BytesIO(payload), buffers=buffers).load()
    finally:
        _loading.items = before


def decode(value: Any) -> Any:
    """Loads what encode has returned."""
    if value is None:
        return None
    if isinstance(value, list):
        return loads(value[0], value[1:])
    return loads(value)


# ---- What cannot be pickled ------------------------------------------------------------------------------
def _parts(x: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(x, dict):
        return ((f"[{key!r}]", item) for key, item in x.items())
    if isinstance(x, (list, tuple, set, frozenset)):
        return ((f"[{i}]", item) for i, item in enumerate(x))
    return ((f".{name}", item) for name, item in getattr(x, "__dict__", {}).items())


def path_of_failure(name: str, x: Any, depth: int = 8) -> str:
    """Returns where in |x| the part is that cannot be pickled: "result[2].lock"."""
    for suffix, item in _parts(x) if depth else ():
        try:
            dumps(item)
        except Exception:
            return path_of_failure(name + suffix, item, depth - 1)
    return name
