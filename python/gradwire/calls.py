"""Calls of functions on other workers."""
from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Union

from . import _core, pickling, references
from .futures import Future, collect_all, milliseconds, wait_all
from .workers import To

SYNC, ASYNC, REMOTE, NOTIFY = range(4)  # how a call of the core returns its result

Function = Union[str, Callable[..., Any]]


def rpc_sync(to: To, function: Function, args: tuple[Any, ...] = (), kwargs: Optional[dict[str, Any]] = None,
             timeout: Optional[float] = None) -> Any:
    """Calls |function| on the worker |to| and returns its result.

        y = gw.rpc_sync("worker1", scale, (x, 2))
        z = gw.rpc_sync("worker1", "gw.add", (x, y))

    to: a name, a rank, a Worker, or an RRef: of an object, for the name of a method; else it stands for its owner.
    function: a function or class that the worker can import by its module and name; or a name that the worker serves,
    for which arguments are plain values.
    timeout: seconds; None: the timeout given to init; 0: none.
    Raises what the function has raised there, with its traceback as the cause; or an Error.
    """
    return start(to, function, args, kwargs, timeout, SYNC)


def rpc_async(to: To, function: Function, args: tuple[Any, ...] = (), kwargs: Optional[dict[str, Any]] = None,
              timeout: Optional[float] = None) -> Future:
    """Calls |function| on the worker |to| and returns a Future of its result; in all else as rpc_sync."""
    future: Future = start(to, function, args, kwargs, timeout, ASYNC)
    return future


def remote(to: To, function: Function, args: tuple[Any, ...] = (), kwargs: Optional[dict[str, Any]] = None,
           timeout: Optional[float] = None) -> Any:
    """Calls |function| on the worker |to|, leaves the result there, and returns an RRef to it.

    function: as of rpc_sync; a class makes an object. If it raises, each use of the reference raises the same.
    """
    return start(to, function, args, kwargs, timeout, REMOTE)


def notify(to: To, function: Function, args: tuple[Any, ...] = (), kwargs: Optional[dict[str, Any]] = None) -> None:
    """Calls |function| on the worker |to| without a reply; an exception is logged there."""
    start(to, function, args, kwargs, None, NOTIFY)


def rpc_sync_all(workers: Iterable[To], function: Function, args: tuple[Any, ...] = (),
                 kwargs: Optional[dict[str, Any]] = None, timeout: Optional[float] = None) -> list[Any]:
    """Calls |function| on several workers and returns the results in their order."""
    return wait_all([rpc_async(w, function, args, kwargs, timeout) for w in workers])


def rpc_async_all(workers: Iterable[To], function: Function, args: tuple[Any, ...] = (),
                  kwargs: Optional[dict[str, Any]] = None, timeout: Optional[float] = None) -> Future:
    """Calls |function| on several workers and returns a Future of the list of results."""
    return collect_all([rpc_async(w, function, args, kwargs, timeout) for w in workers]).then(
        lambda f: [g.value() for g in f.value()])


# ---- How calls are made ------------------------------------------------------------------------------------
def start(to: To, function: Function, args: tuple[Any, ...], kwargs: Optional[dict[str, Any]],
          timeout: Optional[float], mode: int) -> Any:
    """Starts a call of a name or of a function of Python."""
    if isinstance(function, str):
        if kwargs:
            raise TypeError(f"a call by name takes no keyword arguments ({function})")
        return start_named(to, function, tuple(args), timeout, mode)
    if isinstance(to, _core.RRef):
        to = _core.worker(to)
    _check_name(function)
    call = (function, tuple(args), kwargs or {})
    return _start_remote(to, call, timeout) if mode == REMOTE else start_pickled(to, "py.call", call, timeout, mode)


def start_named(to: To, name: str, args: tuple[Any, ...], timeout: Optional[float], mode: int) -> Any:
    """Starts a call with plain values."""
    result = _core.call(to, name, args, milliseconds(timeout), mode, True)
    if mode == ASYNC:
        result._is_plain = True
    if mode == REMOTE:
        result._id = references._VALUE
    return result


def _start_remote(to: To, call: tuple[Any, ...], timeout: Optional[float]) -> Any:
    id_ = references.new_id()
    rref = start_pickled(to, "py.object", (id_, call), timeout, REMOTE)
    rref._id = id_
    return rref


def start_pickled(to: To, name: str, x: Any, timeout: Optional[float], mode: int) -> Any:
    """Starts a call whose argument is the pickle of |x|."""
    pickling.check_enabled("call served functions by their names")
    try:
        values = tuple(pickling.dumps(x))
    except Exception as error:
        raise TypeError(f"{pickling.path_of_failure('arguments', x)} cannot be pickled: {error}") from error
    result = _core.call(to, name, values, milliseconds(timeout), mode, False)
    return pickling.decode(result) if mode == SYNC else result


def _check_name(function: Any) -> None:
    name = getattr(function, "__qualname__", "")
    if "<lambda>" in name or "<locals>" in name:
        raise TypeError(f"{name} cannot be called on another worker, which would have to import it by its name: define "
                        "it at the top of a module")
