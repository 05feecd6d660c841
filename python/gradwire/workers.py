"""Workers of the job."""
from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, NamedTuple, Optional, Union

from . import _core

if TYPE_CHECKING:
    from .futures import Future
    from .references import RRef


class Worker(NamedTuple):
    """A worker of the job. ``rank`` and ``incarnation`` identify the one that had the name when it was looked up."""

    name: str
    rank: int
    incarnation: int

    @property
    def id(self) -> int:
        """The rank, as torch.distributed.rpc names it."""
        return self.rank


#: What calls take as a worker: a name, a rank, a Worker, or an RRef, which stands for its owner.
To = Union[str, int, Worker, "RRef"]


def self() -> Worker:
    """Returns this worker."""
    worker: Worker = _core.self()[0]
    return worker


def rank() -> int:
    """Returns the rank of this worker."""
    return self().rank


def world_size() -> int:
    """Returns the number of workers of the job."""
    size: int = _core.self()[1]
    return size


def worker(to: Optional[To] = None) -> Worker:
    """Returns the worker of a name or rank; without an argument, this worker. NotFoundError if there is none."""
    if to is None:
        return self()
    found: Worker = _core.worker(to)
    return found


def workers() -> list[Worker]:
    """Returns the workers of the job by rank, this one included."""
    return list(_core.workers(None))


def workers_named(name: str) -> list[Worker]:
    """Returns the workers of one role: ``workers_named("trainer%d")``, where %d stands for digits."""
    return list(_core.workers(name))


def member_lost(members: Iterable[To]) -> "Future":
    """Returns a future that fails with DisconnectedError as soon as one of |members| has died or left."""
    future: Future = _core.member_lost([worker(w) for w in members])
    future._is_plain = True
    return future


def path(to: To) -> str:
    """Describes by which transport the worker is reached, for people."""
    return _core.path(to)
