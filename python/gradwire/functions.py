"""Functions and classes that other workers call, and how their calls are run here."""
from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import threading
from typing import Any, Callable, Optional, TypeVar

from . import _core, errors, pickling, references
from .futures import Future
from .workers import Worker

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)

_functions: dict[str, Callable[..., Any]] = {}
_classes: dict[str, type] = {}
_callers: dict[str, Optional[str]] = {}


# ---- Registering -----------------------------------------------------------------------------------------
def _add(table: dict[str, Any], name: str, x: Any, callers: Optional[str]) -> None:
    if _core.is_initialized():
        raise errors.wrong_state(f"{name}: functions and classes are registered before init")
    if name.startswith(("gw.", "py.")):
        raise ValueError(f"{name}: names that begin with gw. or py. belong to the library")
    if name in _callers:
        raise ValueError(f"{name} is registered twice")
    table[name] = x
    _callers[name] = callers


def function(name: str, *, callers: Optional[str] = None) -> Callable[[_F], _F]:
    """Serves a function by a name to workers of all languages; arguments and result are plain values.

        @gw.function("scale")
        def scale(x, by):
            return x * by

    callers: the workers that may call it, "trainer%d"; None: all. Only certificates prove a worker's name.
    """

    def register(f: _F) -> _F:
        _add(_functions, name, f, callers)
        return f

    return register


def cls(name: str, *, callers: Optional[str] = None) -> Callable[[_C], _C]:
    """Serves a class by a name: ``remote(to, name, args)`` makes an object; its references call its public methods."""

    def register(c: _C) -> _C:
        _add(_classes, name, c, callers)
        return c

    return register


def async_execution(f: _F) -> _F:
    """Marks a function that returns a Future: the reply is sent when the future resolves, and no thread waits for it.

    An ``async def`` function needs no mark.
    """
    f.__gradwire_async__ = True  # type: ignore[attr-defined]
    return f


def _methods(c: type) -> list[str]:
    return [name for name, member in inspect.getmembers(c, callable) if not name.startswith("_")]


def registered() -> dict[str, Any]:
    """Returns what init registers: functions and classes, as the core reads them."""
    return {"functions": [(name, _callers[name]) for name in _functions],
            "classes": [(name, _callers[name], _methods(c)) for name, c in _classes.items()]}


# ---- Running ---------------------------------------------------------------------------------------------
class _Loop:
    """The event loop of ``async def`` functions, on a thread of its own, started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(self, coroutine: Any) -> Future:
        out = Future()
        task = asyncio.run_coroutine_threadsafe(coroutine, self._get())
        task.add_done_callback(lambda t: _settle(out, t))
        return out

    def _get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="gradwire-asyncio", daemon=True).start()
            return self._loop


_loop = _Loop()


def _settle(out: Future, task: Any) -> None:
    try:
        exception = task.exception()
    except (asyncio.CancelledError, concurrent.futures.CancelledError):
        exception = concurrent.futures.CancelledError("the coroutine was cancelled")
    try:
        out._settle(None if exception else task.result(), exception)
    except errors.WrongStateError:
        pass  # this worker has left the job meanwhile


def _is_late(f: Any) -> bool:
    target = f.func if isinstance(f, functools.partial) else f
    return getattr(target, "__gradwire_async__", False) or getattr(
        getattr(target, "__func__", None), "__gradwire_async__", False)


def _run(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls |f|. The result is a Future if there is one later."""
    result = f(*args, **kwargs)
    if inspect.iscoroutine(result):
        return _loop.run(result)
    if _is_late(f) and not isinstance(result, Future):
        raise TypeError(f"{f!r} is marked by async_execution, but returned no Future: {result!r}")
    return result


def _encoded(result: Any, f: Callable[..., Any]) -> Any:
    if isinstance(result, Future) and (_is_late(f) or inspect.iscoroutinefunction(f)):
        return (result.then(Future.value) if result._is_plain else result)._pickled()
    try:
        return pickling.encode(result)
    except Exception as error:
        raise TypeError(f"{pickling.path_of_failure('result', result)} cannot be pickled: {error}") from error


def call(name: str, caller: Worker, args: tuple[Any, ...]) -> Any:
    """Runs a served function: the hook of the core."""
    if name != "py.call":
        return _run(_functions[name], args, {})
    f, arguments, keywords = pickling.loads(args[0], args[1:])
    return _encoded(_run(f, arguments, keywords), f)


def open_object(name: str, caller: Worker, args: tuple[Any, ...]) -> Any:
    """Makes the object of a served class, or that of remote and RRef: the hook of the core."""
    if name != "py.object":
        return _classes[name](*args)
    if isinstance(args[0], int):
        if caller != _core.self()[0]:
            raise errors.UnsupportedError("only this worker makes references of its own values")
        return references.Object(args, references.take_new_value(args))
    id_, (f, arguments, keywords) = pickling.loads(args[0], args[1:])
    result = _run(f, arguments, keywords)
    return references.Object(id_, result.wait() if isinstance(result, Future) else result)


def method(target: Any, name: str, caller: Worker, args: tuple[Any, ...]) -> Any:
    """Runs a method of a served object: the hook of the core."""
    class_name, _, method_name = name.rpartition(".")
    if class_name != "py.object":
        return _run(getattr(target, method_name), args, {})
    if method_name == "_py_id":
        return list(target.id)
    if method_name == "fetch":
        return _encoded(target.value, type(target.value))
    method_name, arguments, keywords = pickling.loads(args[0], args[1:])
    f = getattr(target.value, method_name)
    return _encoded(_run(f, arguments, keywords), f)


def make_error(status: str, outcome: Optional[str], worker: str, function: str, text: str, value: Any) -> BaseException:
    """Makes the exception of an error of the library: the hook of the core."""
    loads = pickling.loads if pickling.is_enabled() else None
    return errors.decode(status, outcome, worker, function, text, value, loads)


def encode_error(exception: BaseException) -> tuple[str, Optional[bytes]]:
    """Returns the text and the pickle of an exception: the hook of the core."""
    return errors.encode(exception, pickling.is_enabled())
