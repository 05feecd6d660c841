"""Ends torch's own waits for workers that are lost.

torch.distributed.rpc.api._all_gather, which shutdown begins with, blocks on an event that only messages of the others
set: the leader, the first by name, waits for all, and the others wait for the leader. Here the loss of a worker sets it
as well where no message will, and a gather that lacks a worker fails with the name of that worker.
"""
from __future__ import annotations

import threading
from typing import Any, Callable, Iterable, Optional

from torch.distributed.rpc import api

_lock = threading.Lock()
_lost: "dict[str, str]" = {}  # name to reason, the first lost first
_gathers: "dict[str, frozenset[str]]" = {}  # members of gathers that have begun, by torch's name for them
_original: Callable[..., Any] = api._all_gather


def reset() -> None:
    """Forgets the workers of an earlier job."""
    with _lock:
        _lost.clear()
        _gathers.clear()


def _check(members: "frozenset[str]") -> None:
    with _lock:
        why = [text for name, text in _lost.items() if name in members]
    if why:
        raise RuntimeError(f"gradwire: {'; '.join(why)}")


def _all_gather(obj: Any, worker_names: Optional[Iterable[str]] = None, *args: Any, **keywords: Any) -> Any:
    members = frozenset(worker_names or api._ALL_WORKER_NAMES or ())
    with _lock:
        _gathers["".join(sorted(members))] = members
    _check(members)
    gathered = _original(obj, worker_names, *args, **keywords)
    missing = sorted(members - set(gathered))
    if missing:
        _check(members)
        raise RuntimeError(f"gradwire: the gather lacks {', '.join(missing)}")
    return gathered  # a worker that has left since is of no concern


def on_lost(name: str, why: str) -> None:
    """Wakes the gathers that wait for the worker |name|: the extension module calls it."""
    with _lock:
        _lost[name] = why
        concerned = [(key, min(members)) for key, members in _gathers.items() if name in members]
    own = api._get_current_rpc_agent().get_worker_info().name
    with api._all_gather_dict_lock:
        for key, leader in concerned:
            number = api._all_gather_sequence_id.get(key, 0)
            for i in (number - 1, number):  # one may begin now
                state = api._all_gather_sequence_id_to_states[f"{key}{i}"]
                if name == leader or (own == leader and name not in state.gathered_objects):
                    state.proceed_signal.set()


def install() -> None:
    """Replaces torch's function; without a lost worker it does the same."""
    api._all_gather = _all_gather
