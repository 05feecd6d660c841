"""Groups of workers, and the collectives that all members of a group call together."""
from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence, Union

from . import _core, arrays, pickling
from .futures import Future, milliseconds
from .workers import To, Worker, worker

_TIMEOUT = 300.0  # seconds, of each collective


class Group:
    """A fixed list of workers that run collectives together; the rank of a member is its index in the list.

        everyone = gw.Group.world()
        pair = gw.Group.open(["worker0", "worker1"])       # on these two only
        gw.all_reduce(x, group=pair)

    When a member is lost, the collectives of the group raise DisconnectedError on all others, which continue with
    ``reform``.
    """

    def __init__(self, group: _core.Group) -> None:
        self._group = group

    @classmethod
    def world(cls, name: Optional[str] = None, timeout: float = _TIMEOUT) -> "Group":
        """Opens the group of all workers of the job."""
        return cls(_core.group(None, name, milliseconds(timeout)))

    @classmethod
    def open(cls, workers: Iterable[To], name: Optional[str] = None, timeout: float = _TIMEOUT) -> "Group":
        """Opens a group; only its members call this."""
        return cls(_core.group([worker(w) for w in workers], name, milliseconds(timeout)))

    @classmethod
    def join(cls, name: str, timeout: float = _TIMEOUT) -> "Group":
        """Joins the group |name| that other workers have: blocks until they re-form it and admit this worker."""
        return cls(_core.join_group(name, milliseconds(timeout)))

    def split(self, color: int, key: int = 0, name: Optional[str] = None,
              timeout: float = _TIMEOUT) -> Optional["Group"]:
        """Splits the group: members of one color become a group, ordered by key. None for a color below 0."""
        group = self._group.split(color, key, name, milliseconds(timeout))
        return None if group is None else Group(group)

    def blocks(self, size: int) -> "Group":
        """Opens the group of the block of |size| neighbouring ranks that this member is in."""
        return Group(self._group.blocks(size))

    def agree(self, flags: int = 1) -> tuple[int, list[int]]:
        """Agrees with all remaining members: returns the flags that all have set, and the ranks of missing members."""
        agreement: tuple[int, list[int]] = self._group.agree(flags)
        return agreement

    def reform(self, minimum: int = 1, grow: bool = False, timeout: float = 0) -> "Group":
        """Opens the next generation: the remaining members, and with |grow| all that wait to join."""
        return Group(self._group.reform(minimum, grow, milliseconds(timeout)))

    @property
    def rank(self) -> int:
        """The rank of this worker in the group."""
        return self._group.rank

    @property
    def size(self) -> int:
        """The number of members."""
        return self._group.size

    @property
    def name(self) -> str:
        """The name."""
        return self._group.name

    @property
    def generation(self) -> int:
        """How often the group was re-formed."""
        return self._group.generation

    @property
    def pending(self) -> int:
        """How many workers wait to join, as far as this member knows."""
        return self._group.pending

    def workers(self) -> list[Worker]:
        """Returns the members by rank."""
        return [self._group.worker(i) for i in range(self.size)]

    def history(self) -> str:
        """Lists the last collectives of this member, one a line."""
        return self._group.history()


_world: Optional[tuple[Worker, Group]] = None


def _world_group() -> Group:
    """The group of the job's workers, opened once for each job."""
    global _world
    me = _core.self()[0]
    if _world is None or _world[0] != me:
        _world = (me, Group.world())
    return _world[1]
