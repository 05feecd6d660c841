"""Futures: results that need not exist yet."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
import weakref
from typing import Any, Callable, Generator, Iterable, Iterator, Optional, Sequence

from . import _core, pickling
from .arrays import received_plain
from .errors import Error, RemoteTraceback, wrong_state

_lock = threading.Lock()  # of the outcomes of all futures, and of wakers; nothing is called while it is held


def milliseconds(timeout: Optional[float]) -> int:
    """Returns |timeout| for the library: -1 for None."""
    if timeout is None:
        return -1
    if timeout < 0:
        raise ValueError(f"a timeout is not negative: {timeout}")
    return max(1, round(timeout * 1000)) if timeout else 0


class Future(_core.Future):
    """A result that need not exist yet: of rpc_async, of then, or one that the program sets itself.

    A future may be an argument of a call before it has resolved: the callee starts when the value has arrived, and gets
    the value. ``Future()`` makes a future that ``set_result`` or ``set_exception`` resolves.

        f = gw.rpc_async("worker1", scale, (x, 2))
        g = f.then(lambda f: f.value().sum())
        total = g.wait()
    """

    # (value, None) or (None, exception), once this process has it.
    _outcome: Optional[tuple[Any, Optional[BaseException]]] = None
    _is_local = False  # made by Future(): the library has no value, only the event
    _is_plain = False  # the value is no pickle
    _convert: Optional[Callable[[Any], Any]] = None  # makes the value of users of that of the library

    def __new__(cls) -> "Future":
        future: Future = _core.future()
        future._is_local = True
        return future

    # ---- Waiting ----
    def wait(self, timeout: Optional[float] = None) -> Any:
        """Blocks until the future has resolved and returns its value, or raises its exception.

        timeout: seconds; None: no limit of its own. Raises TimeoutError; the future does not change.
        """
        if self._outcome is None:
            value = self._wait(milliseconds(timeout), self._is_plain)
            if not self._is_local:
                self._keep(value)
        assert self._outcome is not None
        value, exception = self._outcome
        if exception is not None:
            raise exception
        return value

    def _keep(self, value: Any) -> None:
        if self._convert is not None:
            value = self._convert(value)
        elif not self._is_plain:
            value = pickling.decode(value)
        with _lock:
            if self._outcome is None:
                self._outcome = (value, None)

    def value(self) -> Any:
        """Returns the value of a future that has resolved, or raises its exception. WrongStateError before."""
        if not self.done():
            raise wrong_state("the future has not resolved")
        return self.wait()

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Blocks until the future has resolved and returns its exception; None if it has a value.

        An exception of a signal's handler, such as KeyboardInterrupt, is raised.
        """
        if not self.done():
            wait_any([self], timeout)
        try:
            self.wait()
        except BaseException as error:
            if not isinstance(error, Exception) and not self._has_failed_with(error):
                raise
            return error
        return None

    def _has_failed_with(self, error: BaseException) -> bool:
        outcome = self._outcome
        return isinstance(error.__cause__, RemoteTraceback) if outcome is None else outcome[1] is error

    def done(self) -> bool:
        """Returns whether the future has resolved, with a value or an exception."""
        return self._done()

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            loop = asyncio.get_running_loop()
            event: asyncio.Future[None] = loop.create_future()
            waker = _waker_of(loop)
            self._on_done(lambda: waker.add(event))
            try:
                yield from event
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.wait()

    def concurrent(self) -> "concurrent.futures.Future[Any]":
        """Returns a concurrent.futures.Future with the same result."""
        out: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.add_done_callback(lambda f: _copy(f, out))
        return out

    # ---- Continuing ----
    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """Returns a future of what |callback| returns; it is called with this future once this has resolved.

        callback: runs on a thread of the pool, and may wait. If it returns a Future, the value is that of this one.
        """
        out = Future()
        self.add_done_callback(lambda f: out._run(callback, f))
        return out

    def add_done_callback(self, callback: Callable[["Future"], Any]) -> None:
        """Calls |callback| with this future once it has resolved, on a thread of the pool; an exception is logged."""
        self._on_done(lambda: callback(self))

    def _run(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            self.set_result(function(*args))
        except BaseException as error:
            self._settle(None, error)

    # ---- Resolving ----
    def set_result(self, value: Any) -> None:
        """Resolves a future made by Future(); with another Future, when this one resolves. WrongStateError twice."""
        if isinstance(value, Future):
            value.add_done_callback(self._follow)
        elif not self._settle(value, None):
            raise wrong_state("the future has resolved before")

    def set_exception(self, exception: BaseException) -> None:
        """Resolves a future made by Future() with an exception. WrongStateError if it has resolved before."""
        if not isinstance(exception, BaseException):
            raise TypeError(f"an exception is expected, not {exception!r}")
        if not self._settle(None, exception):
            raise wrong_state("the future has resolved before")

    def _follow(self, other: "Future") -> None:
        exception = other.exception()
        self._settle(None if exception else other.value(), exception)

    def _settle(self, value: Any, exception: Optional[BaseException]) -> bool:
        if not self._is_local:
            raise wrong_state("the future is that of a call")
        with _lock:
            if self._outcome is not None or self._done():
                return False
            self._outcome = (value, exception)
        return self._set(None)

    def cancel(self) -> None:
        """Resolves the future with CancelledError, unless it has resolved. A call that has not started does not run."""
        self._cancel()

    # ---- Passing on ----
    def _pickled(self) -> "Future":
        """This future for a pickle: the library has its pickled value."""
        return self._passed(pickling.encode) if self._is_local or self._convert is not None else self

    def _plain(self) -> "Future":
        """This future for a call by name: the library has its plain value."""
        return self if self._is_plain and not self._is_local else self._passed(lambda value: value)

    def _passed(self, encode: Callable[[Any], Any]) -> "Future":
        out: Future = _core.future()

        def run(f: Future) -> None:
            try:
                out._set(encode(f.value()))
            except BaseException as error:
                out._fail(error)

        self.add_done_callback(run)
        return out

    def __reduce__(self) -> Any:
        raise TypeError("a Future can be pickled in the arguments and results of calls only")


def _reduce(future: Future) -> tuple[Future, bool]:
    is_plain = future._is_plain and not future._is_local
    return (future if is_plain else future._pickled()), is_plain


# The callee gets the value.
pickling.register(Future, _reduce, lambda is_plain: received_plain if is_plain else pickling.decode)


class _Waker:
    """Resolves events of one loop; the loop wakes once for all that have resolved since it last ran."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._events: list[asyncio.Future[None]] = []

    def add(self, event: "asyncio.Future[None]") -> None:
        """Called by any thread."""
        loop = self._loop()
        with _lock:
            self._events.append(event)
            is_first = len(self._events) == 1
        if is_first and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        with _lock:
            events, self._events = self._events, []
        for event in events:
            if not event.done():
                event.set_result(None)


_wakers: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker]" = weakref.WeakKeyDictionary()


def _waker_of(loop: asyncio.AbstractEventLoop) -> _Waker:
    """Called on the thread of the loop."""
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _Waker(loop)
    return waker


def _copy(future: Future, out: "concurrent.futures.Future[Any]") -> None:
    if not out.set_running_or_notify_cancel():
        return
    exception = future.exception()
    if exception is None:
        out.set_result(future.value())
    else:
        out.set_exception(exception)


# ---- Several futures --------------------------------------------------------------------------------------
def collect_all(futures: Iterable[Future]) -> Future:
    """Returns a future of the list of |futures|, which resolves when all of them have resolved."""
    futures = list(futures)
    out, left, lock = Future(), len(futures), threading.Lock()

    def count(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            out._settle(futures, None)

    for f in futures:
        f.add_done_callback(count)
    if not futures:
        out.set_result([])
    return out


def wait_all(futures: Iterable[Future], timeout: Optional[float] = None) -> list[Any]:
    """Blocks until all |futures| have resolved and returns their values; raises the first exception in their order."""
    futures = list(futures)
    deadline = _Deadline(timeout)
    failed: Optional[BaseException] = None
    for f in futures:
        exception = f.exception(deadline.left())
        failed = failed or exception
    if failed is not None:
        raise failed
    return [f.value() for f in futures]


def wait_any(futures: Sequence[Future], timeout: Optional[float] = None) -> int:
    """Blocks until one of |futures| has resolved and returns its index."""
    return _core.wait_any(list(futures), milliseconds(timeout))


def as_completed(futures: Iterable[Future], timeout: Optional[float] = None) -> Iterator[Future]:
    """Iterates over |futures| in the order in which they resolve. TimeoutError after |timeout| seconds in all."""
    left, deadline = list(futures), _Deadline(timeout)
    while left:
        yield left.pop(wait_any(left, deadline.left()))


class _Deadline:
    def __init__(self, timeout: Optional[float]) -> None:
        self.end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> Optional[float]:
        return None if self.end is None else max(0.0, self.end - time.monotonic())


__all__ = ["Future", "collect_all", "wait_all", "wait_any", "as_completed", "Error"]
