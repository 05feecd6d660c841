"""The backend: its registration, joining and leaving."""
from __future__ import annotations

import atexit
import os
import sys
from typing import Any

import gradwire
import torch.distributed as dist
from gradwire import _core, errors
from torch.distributed.rpc import BackendType, TensorPipeRpcBackendOptions, api, backend_registry

from . import extension, gather, meeting, options

NAME = "GRADWIRE"


# ---- Registration ------------------------------------------------------------------------------------------------
def _add_member(value: Any) -> None:
    """Adds a member to torch's enumeration of backends.

    torch's register_backend makes a new enumeration instead, so that members that a program has imported before are
    invalid.
    """
    member = object.__new__(BackendType)
    member._name_, member._value_, member.__objclass__ = NAME, value, BackendType
    member._sort_order_ = len(BackendType._member_names_)
    BackendType._member_names_.append(NAME)
    BackendType._member_map_[NAME] = member
    BackendType._value2member_map_[value] = member
    if NAME not in dir(type(BackendType)) and not hasattr(BackendType, NAME):
        type.__setattr__(BackendType, NAME, member)


def register() -> None:
    """Adds BackendType.GRADWIRE."""
    if not backend_registry.backend_registered(NAME):
        _add_member(backend_registry.BackendValue(options.construct, init))
    gather.install()
    meeting.register()


def use_for_all() -> None:
    """Makes init_rpc use gradwire where the program names no backend, or TENSORPIPE. Call it before init_rpc."""
    for kind in {BackendType, backend_registry.BackendType}:
        member = kind["TENSORPIPE"]
        construct = member.value.construct_rpc_backend_options_handler
        member._value_ = backend_registry.BackendValue(construct, init)


# ---- Joining -----------------------------------------------------------------------------------------------------
def init(store: Any, name: str, rank: int, world_size: int, rpc_backend_options: Any) -> Any:
    """Joins the job and returns the agent: torch calls it in init_rpc."""
    if isinstance(rpc_backend_options, TensorPipeRpcBackendOptions):
        rpc_backend_options = options.of_tensorpipe(rpc_backend_options)
    if not isinstance(rpc_backend_options, options.GradwireRpcBackendOptions):
        raise TypeError(f"`rpc_backend_options` must be a `GradwireRpcBackendOptions`. {rpc_backend_options}")
    if not isinstance(store, dist.Store):
        raise TypeError(f"`store` must be a c10d::Store. {store}")
    if not world_size or rank < 0:
        raise ValueError("the backend gradwire needs rank and world_size: a group whose workers join later is not "
                         "supported")
    if _core.is_initialized():
        names = _own_names(name, rank, world_size)
    else:
        names = _join(store, name, rank, world_size, rpc_backend_options)
    return _open_agent(names, rank, rpc_backend_options)


def _join(store: Any, name: str, rank: int, world_size: int, o: options.GradwireRpcBackendOptions) -> "list[str]":
    """Returns the names of all workers by rank; one of them may have left already."""
    with meeting.meet(store, name, rank, world_size, o) as place:
        try:
            gradwire.init(name, rank=rank, world_size=world_size, init_method=place.address, timeout=o.rpc_timeout,
                          join_timeout=o.join_timeout, key=o.key or place.key)
        except errors.Error as error:
            raise RuntimeError(f"gradwire: {error}") from error
        return place.names


def _own_names(name: str, rank: int, world_size: int) -> "list[str]":
    """The program has called gradwire.init: torch gets this agent."""
    own = gradwire.self()
    if (own.name, own.rank, gradwire.world_size()) != (name, rank, world_size):
        raise RuntimeError(f"gradwire.init has joined as {own.name}, rank {own.rank} of {gradwire.world_size()}, but "
                           f"init_rpc joins as {name}, rank {rank} of {world_size}")
    if not extension.module.is_served():
        raise RuntimeError("import gradwire.torch before gradwire.init")
    names = [worker.name for worker in gradwire.workers()]
    if len(names) < world_size:
        raise RuntimeError(f"a worker has left the job before init_rpc; these are present: {', '.join(names)}")
    return names


def _open_agent(names: "list[str]", rank: int, o: options.GradwireRpcBackendOptions) -> Any:
    gather.reset()
    agent = o.make_agent(names, rank)
    atexit.register(_end, agent, os.getpid())
    api._init_rpc_states(agent)
    return agent


# ---- Leaving -----------------------------------------------------------------------------------------------------
def leave(is_graceful: bool, timeout_s: float) -> None:
    """Leaves the job: the extension module calls it in torch's shutdown."""
    try:
        if is_graceful:
            gradwire.shutdown(timeout_s or None)
        else:
            gradwire.leave()
    except errors.Error as error:
        raise RuntimeError(f"gradwire: {error}") from error


def _end(agent: Any, pid: int) -> None:
    """A program that ends without rpc.shutdown leaves, before the interpreter ends."""
    if pid != os.getpid() or not agent.is_running():
        return
    print(f"gradwire: {agent.get_worker_info().name} ends without rpc.shutdown(): it leaves the job", file=sys.stderr)
    agent.shutdown()
