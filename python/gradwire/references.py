"""References: counted names of values that stay with their owners."""
from __future__ import annotations

import itertools
import weakref
from typing import Any, Callable, Optional

from . import _core, calls, pickling
from .errors import InvalidError, NotFoundError
from .futures import Future, milliseconds
from .workers import To, Worker

# ---- Objects of this worker ---------------------------------------------------------------------------------
#: Identifies an object of Python in the job: the incarnation of the worker that has made its first reference, a number.
Id = tuple[int, int]

_ID_METHOD = "_py_id"  # of py.object alone: no served class has public methods of such names
_VALUE: Id = (0, 0)  # in place of an id: the reference names a value of the library, or an object of a served class
_numbers = itertools.count(1)


class Object:
    """An object of this worker to which references exist; the core keeps it for them."""

    def __init__(self, id_: Id, value: Any) -> None:
        if id_ in _objects:
            raise ValueError(f"there is an object {id_} already")
        self.id, self.value = id_, value
        _objects[id_] = self


_objects: "weakref.WeakValueDictionary[Id, Object]" = weakref.WeakValueDictionary()
_new_values: dict[Id, Any] = {}  # of RRef(value), until their objects are made


def new_id() -> Id:
    """Returns an id that no object has."""
    return _core.self()[0].incarnation & 0x7FFF_FFFF_FFFF_FFFF, next(_numbers)


def take_new_value(id_: Id) -> Any:
    """Returns the value of RRef(value), once."""
    return _new_values.pop(id_)


# ---- References ------------------------------------------------------------------------------------------------
class RRef(_core.RRef):
    """A reference to a value of a worker: an object of Python, or a value of the library.

    The owner keeps the value for as long as any worker has a reference. ``RRef(value)`` refers to a value of this
    worker; no message is sent until a call or a reply sends the reference.

        counter = gw.remote("worker1", Counter, (3,))
        n = counter.rpc_sync().add(4)
        copy = counter.to_here()

    Methods of one object run one at a time, in the order in which their calls have arrived; while one waits for
    gradwire, others may run.
    """

    _id: Optional[Id] = None  # None: not known yet

    def __new__(cls, value: Any) -> "RRef":
        id_ = new_id()
        _new_values[id_] = value
        rref: RRef = _core.call(_core.self()[0], "py.object", id_, -1, calls.REMOTE, False)
        rref._id = id_
        return rref

    def _find_id(self, timeout: Optional[float]) -> Id:
        """Asks the owner, which blocks until the object exists; for a reference that a call by name has passed."""
        try:
            found = _core.call(self, _ID_METHOD, (), milliseconds(timeout), calls.SYNC, False)
            self._id = (found[0], found[1])
        except (NotFoundError, InvalidError):
            self._id = _VALUE
        return self._id

    def _is_object(self, timeout: Optional[float]) -> bool:
        return (self._id or self._find_id(timeout)) != _VALUE

    # ---- The value ----
    def to_here(self, timeout: Optional[float] = None) -> Any:
        """Returns a copy of the value; on its owner, the value itself. Blocks until the value exists."""
        if self.is_owner():
            return self.local_value(timeout)
        if self._is_object(timeout):
            return pickling.decode(_core.call(self, "fetch", (), milliseconds(timeout), calls.SYNC, False))
        fetched = self._fetch()
        fetched._is_plain = True
        return fetched.wait(timeout)

    def local_value(self, timeout: Optional[float] = None) -> Any:
        """Returns the value itself, on its owner. InvalidError on other workers."""
        if not self.is_owner() or not self._is_object(timeout):
            return self._local_value(milliseconds(timeout))
        assert self._id is not None
        if self._id not in _objects:
            _core.call(self, _ID_METHOD, (), milliseconds(timeout), calls.SYNC, False)  # blocks until the object exists
        return _objects[self._id].value

    def by_value(self) -> Future:
        """Returns a future that, as an argument, passes the value from its owner directly to the callee."""
        if self._is_object(None):
            future: Future = _core.call(self, "fetch", (), -1, calls.ASYNC, False)
            return future
        future = self._by_value()
        future._is_plain = True
        return future

    # ---- Methods ----
    def rpc_sync(self, timeout: Optional[float] = None) -> "Proxy":
        """Returns a proxy: ``ref.rpc_sync().add(4)`` calls the method and returns its result."""
        return Proxy(self, calls.SYNC, timeout)

    def rpc_async(self, timeout: Optional[float] = None) -> "Proxy":
        """Returns a proxy whose methods return a Future."""
        return Proxy(self, calls.ASYNC, timeout)

    def remote(self, timeout: Optional[float] = None) -> "Proxy":
        """Returns a proxy whose methods return an RRef to the result."""
        return Proxy(self, calls.REMOTE, timeout)

    # ---- About the reference ----
    def owner(self) -> Worker:
        """Returns the worker that has the value."""
        worker: Worker = self._owner()
        return worker

    def owner_name(self) -> str:
        """Returns the name of the owner."""
        return self.owner().name

    def is_owner(self) -> bool:
        """Returns whether this worker is the owner."""
        return self._is_owner()

    def confirmed_by_owner(self) -> bool:
        """Returns whether the owner has confirmed that it knows this reference."""
        return self._is_confirmed()

    def set_name(self, name: str) -> None:
        """Gives the value a name, on its owner; ``named`` finds it. It is kept until the owner leaves the job."""
        self._set_name(name)

    def __reduce__(self) -> Any:
        raise TypeError("an RRef can be pickled in the arguments and results of calls only: elsewhere it would not be "
                        "counted")

    def __repr__(self) -> str:
        return f"<RRef of {self.owner_name()}>"


def _load(id_: Optional[Id]) -> Callable[[RRef], RRef]:
    def load(rref: RRef) -> RRef:
        rref._id = id_
        return rref

    return load


pickling.register(RRef, lambda rref: (rref, rref._id), _load)


class Proxy:
    """Calls methods of the value of a reference; made by RRef.rpc_sync, rpc_async and remote."""

    __slots__ = ("_rref", "_mode", "_timeout")

    def __init__(self, rref: RRef, mode: int, timeout: Optional[float]) -> None:
        self._rref, self._mode, self._timeout = rref, mode, timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        rref, mode, timeout = self._rref, self._mode, self._timeout
        if not rref._is_object(timeout):
            return lambda *args: calls.start_named(rref, name, args, timeout, mode)
        if mode == calls.REMOTE:
            return lambda *args, **kwargs: calls.start(rref.owner(), _call_method, (rref, name, args, kwargs), {},
                                                       timeout, mode)
        return lambda *args, **kwargs: calls.start_pickled(rref, "call", (name, args, kwargs), timeout, mode)


def _call_method(rref: RRef, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs on the owner, for a result that stays there."""
    return getattr(rref.local_value(), name)(*args, **kwargs)


def named(to: To, name: str, timeout: Optional[float] = None) -> RRef:
    """Returns a reference to the value that worker |to| has given the name; blocks until it has."""
    rref: RRef = _core.named(to, name, milliseconds(timeout))
    return rref
