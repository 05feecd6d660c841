"""Joining a job, and leaving it."""
from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType
from typing import Any, Iterable, Optional

from . import _core, arrays, functions, pickling
from .errors import UnsupportedError
from .futures import milliseconds

_uncaught: Optional[str] = None  # the exception that ends this program
_is_watching = False


class Job:
    """What init returns: as a context manager it calls shutdown at its end, or leaves the job after an exception."""

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if value is None:
            shutdown()
        else:
            _leave_failed(f"{type(value).__name__}: {value}")


def init(name: Optional[str] = None, *, rank: Optional[int] = None, world_size: Optional[int] = None,
         init_method: Optional[str] = None, timeout: float = 60, join_timeout: float = 300, threads: int = 4,
         group: Optional[str] = None, key: Optional[str] = None, addresses: Optional[str] = None,
         interfaces: Optional[str] = None, insecure: bool = False, pickle: bool = True,
         pickle_modules: Optional[Iterable[str]] = None, insecure_pickle: bool = False, readonly: bool = False) -> Job:
    """Joins the job; blocks until all workers have joined.

        gw.init()                       # rank, world size and address: from the launcher
        with gw.init("ps"): ...         # shuts down at its end

    name: of this worker, with %d for the rank; None: "worker%d".
    rank, world_size, init_method: None: from the environment (docs/LAUNCHERS.md).
    timeout: seconds of each call; 0: none. join_timeout: seconds until all workers have joined.
    threads: that run functions of other workers; one that waits is replaced meanwhile.
    group: "create" or "join" for an elastic job.
    key: the file of the job's key (gradwire key); None: that of the launcher, or of GW_KEY_FILE.
    pickle: False: only functions and classes that are served by name are called, and no pickle is loaded. A worker that
    may send pickles can run code here; docs/SECURITY.md says who may.
    pickle_modules: the modules from which pickles load; finds mistakes, but is no sandbox.
    insecure_pickle: loads pickles also over connections to other hosts that no key protects.
    readonly: arrays of numpy in received calls and replies are read-only, and never copied.
    """
    if pickle:
        _check_key(key, insecure, insecure_pickle)
    pickling.configure(pickle, pickle_modules, readonly)
    arrays.configure(readonly)
    _watch_end()
    _core.init(name=name, rank=-1 if rank is None else rank, world_size=-1 if world_size is None else world_size,
               init_method=init_method, job=_job_kind(group), key=key, addresses=addresses, interfaces=interfaces,
               timeout_ms=milliseconds(timeout), join_timeout_ms=milliseconds(join_timeout), threads=threads,
               insecure=insecure, pickles=pickle, **functions.registered())
    return Job()


init_rpc = init


def _job_kind(group: Optional[str]) -> int:
    kinds = {None: 0, "create": 1, "join": 2}
    if group not in kinds:
        raise ValueError(f'group is "create" or "join", not {group!r}')
    return kinds[group]


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


def _check_key(key: Optional[str], insecure: bool, insecure_pickle: bool) -> None:
    """Without a key only |insecure| allows connections to other hosts, and pickles over them need one option more."""
    has_key = key is not None or _is_set("GW_KEY_FILE") or os.environ.get("GW_KEY_FD", "") != ""
    if has_key or not (insecure or _is_set("GW_INSECURE")):
        return
    if not (insecure_pickle or _is_set("GW_INSECURE_PICKLE")):
        raise UnsupportedError("pickles over connections without a key: each machine of the network could run code "
                               "here. Use a key (gradwire key > job.key), pickle=False, or insecure_pickle=True")
    print("gradwire: pickles are loaded over connections that no key protects", file=sys.stderr)


def shutdown(timeout: Optional[float] = None) -> None:
    """Leaves the job together with all other workers; serves their calls until each has called shutdown.

    timeout: seconds; None: no limit. TimeoutError names the workers that have not called it. A second call does
    nothing.
    """
    _core.shutdown(0 if timeout is None else milliseconds(timeout))


def leave() -> None:
    """Leaves the job while the other workers continue.

    Functions that other workers have called end first, for at most 30 seconds; those that then still run are left behind
    on their threads, and a line on stderr says so.
    """
    _core.leave()


# ---- The end of the program ----------------------------------------------------------------------------------
def _watch_end() -> None:
    global _is_watching
    if _is_watching:
        return
    _is_watching = True
    atexit.register(_at_exit)
    previous = sys.excepthook

    def note(kind: type[BaseException], value: BaseException, traceback: Optional[TracebackType]) -> Any:
        global _uncaught
        _uncaught = f"{kind.__name__}: {value}"
        return previous(kind, value, traceback)

    sys.excepthook = note
    if os.environ.get("GRADWIRE_JOB") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)


def _leave_failed(text: str) -> None:
    """Leaves with |text| as the reason; the error that it ends with is the caller's own."""
    _core.fail(text.replace("\0", "?").encode(errors="replace").decode())
    try:
        _core.leave()
    except Exception:
        pass


def _at_exit() -> None:
    if _core.is_initialized():
        if _uncaught is not None:
            _leave_failed(_uncaught)
        else:
            name = _core.self()[0].name
            print(f"gradwire: {name} ends without gradwire.shutdown(): it leaves the job", file=sys.stderr)
            try:
                _core.leave()
            except Exception as error:
                print(f"gradwire: {error}", file=sys.stderr)
    _core.end()
