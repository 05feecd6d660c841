"""gradwire: calls, references, groups and collectives between the processes of a job.

    import gradwire as gw

    def scale(x, k): return x * k

    gw.init()                                            # rank and world size: from the launcher
    if gw.rank() == 0:
        y = gw.rpc_sync("worker1", scale, (x, 2))
        r = gw.remote("worker1", Counter, (3,)); n = r.rpc_sync().add(4)
    gw.shutdown()

Start it with ``gradwire run -n 2 -- python3 train.py``. docs/PYTHON.md is the manual.
"""
import threading as _threading

from . import _core, functions as _functions
from .arrays import empty, freeze, received as _received
from .calls import notify, remote, rpc_async, rpc_async_all, rpc_sync, rpc_sync_all
from .collectives import (all_gather, all_gather_list, all_gather_object, all_reduce, all_to_all, barrier, batch,
                          broadcast, broadcast_object, gather, gather_object, irecv, isend, monitored_barrier, recv,
                          reduce, reduce_scatter, scatter, scatter_object, send)
from .errors import (AddressInUseError, CancelledError, DisconnectedError, DuplicateError, Error, FencedError,
                     InvalidError, LimitError, MismatchError, NotFoundError, OutOfMemoryError, OverloadedError,
                     ProtocolError, RefLostError, RemoteError, RemoteTraceback, SystemError, TimeoutError,
                     UnsupportedError, WouldBlockError, WrongStateError)
from .functions import async_execution, cls, function
from .futures import Future, as_completed, collect_all, wait_all, wait_any
from .groups import Group
from .job import Job, init, init_rpc, leave, shutdown
from .references import RRef, named
from .workers import Worker, member_lost, path, rank, self, worker, workers, workers_named, world_size

__version__: str = _core.version


def stats() -> "dict[str, int | str]":
    """Returns counts of this worker's calls and messages."""
    return _core.stats()


def references() -> "list[dict[str, object]]":
    """Lists the references that this worker knows: its values that others refer to, and those that it refers to."""
    return _core.references()


def owned_count() -> int:
    """Returns the number of values of this worker to which references exist."""
    return _core.owned_count()


_core.configure(call=_functions.call, open=_functions.open_object, method=_functions.method,
                make_error=_functions.make_error, encode_error=_functions.encode_error, array=_received, worker=Worker,
                future=Future, rref=RRef, main_thread=_threading.main_thread().ident)
