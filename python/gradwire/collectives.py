"""Collectives and messages of a group, on whatever has a buffer: arrays of numpy, CPU tensors of torch, bytearrays.

    gw.all_reduce(x)                                   # in place, over all workers
    rows = gw.all_gather(x)                            # a new array
    f = gw.all_reduce(x, op="avg", async_op=True)      # a Future of x

All members call the same collectives in the same order. ``group``: None: all workers of the job. ``timeout``: seconds;
None: that of the group. ``key``: collectives with different keys may be called in different orders. ``async_op``:
returns a Future; an array that the collective writes is written when the future is waited for.
"""
from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence

from . import _core, pickling
from .arrays import as_array, as_buffer, as_plain, copy_to
from .futures import Future, milliseconds, wait_all
from .groups import Group, _world_group


def _tensor(x: Any) -> _core.Tensor:
    return _core.tensor(as_buffer(x))


def _run(name: str, x: Any, convert: Callable[[Any], Any], group: Optional[Group], async_op: bool, *, op: str = "sum",
         peer: int = 0, key: int = 0, timeout: Optional[float] = None, factor: float = 1.0,
         sizes: Optional[Sequence[int]] = None) -> Any:
    of = group or _world_group()
    future: Future = _core.collective(of._group, name, x, op, peer, key, milliseconds(timeout), factor, sizes)
    future._convert = convert
    return future if async_op else future.wait()


def _into(x: Any) -> Callable[[Any], Any]:
    """Writes the result to |x|, on members that have one."""

    def write(tensor: _core.Tensor) -> Any:
        if memoryview(tensor).nbytes or not memoryview(as_buffer(x)).nbytes:
            copy_to(x, tensor)
        return x

    return write


def _rows_at(root: int, group: Optional[Group]) -> Callable[[Any], Any]:
    is_root = (group or _world_group()).rank == root
    return lambda tensor: as_array(tensor) if is_root else None


# ---- In place --------------------------------------------------------------------------------------------
def all_reduce(x: Any, op: str = "sum", group: Optional[Group] = None, async_op: bool = False, *, new: bool = False,
               factor: float = 1.0, key: int = 0, timeout: Optional[float] = None) -> Any:
    """Combines |x| of all members and writes the result to |x|; every member gets the same bits.

    op: "sum", "avg", "product", "min", "max", "band", "bor" or "bxor". factor: multiplies each element first, for sum
    and avg. new: returns a new array and leaves |x| as it is. Returns |x|.
    """
    return _run("all_reduce", _tensor(x), as_array if new else _into(x), group, async_op, op=op, factor=factor, key=key,
                timeout=timeout)


def reduce(x: Any, root: int = 0, op: str = "sum", group: Optional[Group] = None, async_op: bool = False, *,
           factor: float = 1.0, key: int = 0, timeout: Optional[float] = None) -> Any:
    """As all_reduce, but only member |root| gets the result."""
    return _run("reduce", _tensor(x), _into(x), group, async_op, op=op, peer=root, factor=factor, key=key,
                timeout=timeout)


def broadcast(x: Any, root: int = 0, group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
              timeout: Optional[float] = None) -> Any:
    """Copies |x| of member |root| to |x| of all members. Returns |x|."""
    return _run("broadcast", _tensor(x), _into(x), group, async_op, peer=root, key=key, timeout=timeout)


# ---- New arrays ------------------------------------------------------------------------------------------
def all_gather(x: Any, group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
               timeout: Optional[float] = None) -> Any:
    """Returns the rows of |x| of all members, joined in the order of ranks; numbers of rows may differ."""
    return _run("all_gather", _tensor(x), as_array, group, async_op, key=key, timeout=timeout)


def all_gather_list(x: Any, group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
                    timeout: Optional[float] = None) -> Any:
    """Returns the list of |x| of all members, of any shapes and types."""
    return _run("all_gather_list", _tensor(x), as_plain, group, async_op, key=key, timeout=timeout)


def gather(x: Any, root: int = 0, group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
           timeout: Optional[float] = None) -> Any:
    """Returns on member |root| the rows of |x| of all members; None elsewhere."""
    return _run("gather", _tensor(x), _rows_at(root, group), group, async_op, peer=root, key=key, timeout=timeout)


def scatter(xs: Optional[Iterable[Any]] = None, root: int = 0, group: Optional[Group] = None, async_op: bool = False, *,
            key: int = 0, timeout: Optional[float] = None) -> Any:
    """Returns the array at this member's rank in the list that member |root| gives; the others give None."""
    return _run("scatter", None if xs is None else [_tensor(x) for x in xs], as_array, group, async_op, peer=root,
                key=key, timeout=timeout)


def reduce_scatter(x: Any, op: str = "sum", group: Optional[Group] = None, async_op: bool = False, *,
                   sizes: Optional[Sequence[int]] = None, factor: float = 1.0, key: int = 0,
                   timeout: Optional[float] = None) -> Any:
    """Combines |x| of all members and returns this member's rows. sizes: the rows of each member; None: the same."""
    return _run("reduce_scatter", _tensor(x), as_array, group, async_op, op=op, factor=factor, sizes=sizes, key=key,
                timeout=timeout)


def all_to_all(x: Any, group: Optional[Group] = None, async_op: bool = False, *, sizes: Optional[Sequence[int]] = None,
               key: int = 0, timeout: Optional[float] = None) -> Any:
    """Sends part i of the rows of |x| to member i, and returns the rows that this member gets."""
    return _run("all_to_all", _tensor(x), as_array, group, async_op, sizes=sizes, key=key, timeout=timeout)


def barrier(group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
            timeout: Optional[float] = None) -> Any:
    """Blocks until all members have called it."""
    return _run("barrier", None, lambda value: value, group, async_op, key=key, timeout=timeout)


def monitored_barrier(group: Optional[Group] = None, *, key: int = 0, timeout: Optional[float] = None) -> None:
    """As barrier; TimeoutError names every member that did not arrive."""
    _run("monitored_barrier", None, lambda value: value, group, False, key=key, timeout=timeout)


# ---- Objects that pickle -----------------------------------------------------------------------------------
def _encode(x: Any) -> Any:
    pickling.check_enabled("use collectives of arrays")
    return pickling.encode(x)


def _nothing() -> None:
    """What a member gives that has no object to give."""
    pickling.check_enabled("use collectives of arrays")


def _decode_list(values: list[Any]) -> list[Any]:
    return [pickling.decode(value) for value in values]


def all_gather_object(x: Any, group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
                      timeout: Optional[float] = None) -> Any:
    """Returns the list of |x| of all members."""
    return _run("all_gather_value", _encode(x), _decode_list, group, async_op, key=key, timeout=timeout)


def gather_object(x: Any, root: int = 0, group: Optional[Group] = None, async_op: bool = False, *, key: int = 0,
                  timeout: Optional[float] = None) -> Any:
    """Returns on member |root| the list of |x| of all members; an empty list elsewhere."""
    return _run("gather_value", _encode(x), _decode_list, group, async_op, peer=root, key=key, timeout=timeout)


def broadcast_object(x: Any = None, root: int = 0, group: Optional[Group] = None, async_op: bool = False, *,
                     key: int = 0, timeout: Optional[float] = None) -> Any:
    """Returns |x| of member |root|; the others' |x| is ignored."""
    is_root = (group or _world_group()).rank == root
    return _run("broadcast_value", _encode(x) if is_root else _nothing(), pickling.decode, group, async_op, peer=root,
                key=key, timeout=timeout)


def scatter_object(xs: Optional[Iterable[Any]] = None, root: int = 0, group: Optional[Group] = None,
                   async_op: bool = False, *, key: int = 0, timeout: Optional[float] = None) -> Any:
    """Returns the item at this member's rank in the list that member |root| gives; the others give None."""
    return _run("scatter_value", _nothing() if xs is None else [_encode(x) for x in xs], pickling.decode, group,
                async_op, peer=root, key=key, timeout=timeout)


# ---- Messages ----------------------------------------------------------------------------------------------
def send(x: Any, to: int, group: Optional[Group] = None, *, tag: int = 0, timeout: Optional[float] = None) -> None:
    """Sends |x| to the member of rank |to|, and blocks until it has received it."""
    isend(x, to, group, tag=tag, timeout=timeout).wait()


def isend(x: Any, to: int, group: Optional[Group] = None, *, tag: int = 0, timeout: Optional[float] = None) -> Future:
    """Starts send, and returns a Future."""
    future: Future = _run("send", _tensor(x), lambda value: None, group, True, peer=to, key=tag, timeout=timeout)
    return future


def recv(source: Optional[int] = None, group: Optional[Group] = None, *, into: Any = None, tag: int = 0,
         timeout: Optional[float] = None) -> Any:
    """Returns the array of the next message of the member of rank |source|.

    source: None: of any member; the result is then (rank, array). into: an array to which the message is written.
    """
    return irecv(source, group, into=into, tag=tag, timeout=timeout).wait()


def irecv(source: Optional[int] = None, group: Optional[Group] = None, *, into: Any = None, tag: int = 0,
          timeout: Optional[float] = None) -> Future:
    """Starts recv, and returns a Future."""
    convert = as_array if into is None else _into(into)
    future: Future
    if source is None:
        future = _run("recv_any", None, lambda pair: (pair[0], convert(pair[1])), group, True, key=tag, timeout=timeout)
    else:
        future = _run("recv", None, convert, group, True, peer=source, key=tag, timeout=timeout)
    return future


def batch(messages: Iterable[Callable[[], Future]]) -> list[Any]:
    """Starts all |messages|, then waits for them, and returns their results: ``batch([lambda: isend(x, 1), ...])``."""
    return wait_all([start() for start in messages])
