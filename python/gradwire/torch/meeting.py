"""How workers meet: through the store that torch has opened for init_rpc.

Each worker puts a description of itself there. Rank 0 compares them and puts one address for all. On one host this is a
file in a new directory of mode 0700, which also has the key of the job; over several hosts it is a port of rank 0, and
the workers need a key of their own (SECURITY.md). The store has paths and names, but no keys: it has no protection.
"""
from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import secrets
import shutil
import socket
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Iterator, Optional
from urllib.parse import urlparse

import gradwire
import torch.distributed as dist

from . import extension

if TYPE_CHECKING:
    from .options import GradwireRpcBackendOptions

JOINED = "gradwire://"  # the init_method of a process that has called gradwire.init
_KEY_PURPOSE = b"gradwire key id"
_TURN = timedelta(seconds=1)  # between two looks at signals


@dataclass
class Place:
    """Where gradwire's workers meet."""

    address: str
    key: Optional[str]
    names: "list[str]"  # of all workers, by rank


# ---- Keys --------------------------------------------------------------------------------------------------------
def _key_line() -> str:
    """Makes the line that `gradwire key` prints: its id is derived from the key (HKDF with SHA-256)."""
    key = secrets.token_bytes(32)
    extracted = hmac.digest(bytes(32), key, hashlib.sha256)
    identity = hmac.digest(extracted, _KEY_PURPOSE + b"\1", hashlib.sha256)[:8]
    return f"gradwire-key 1 {identity.hex()} {key.hex()}\n"


def _has_key(options: GradwireRpcBackendOptions) -> bool:
    return bool(options.key or os.environ.get("GW_KEY_FILE") or os.environ.get("GW_KEY_FD"))


def _write_key(directory: pathlib.Path) -> str:
    path = directory / "key"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_key_line())
    return str(path)


# ---- Descriptions of workers -------------------------------------------------------------------------------------
def _host() -> "list[Any]":
    """Identifies what processes share that can meet at a file: kernel, user, and namespaces."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return [boot, os.geteuid(), *(os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "net"))]


def _describe(name: str, world_size: int, options: GradwireRpcBackendOptions) -> "dict[str, Any]":
    return {"name": name, "world_size": world_size, "torch": extension.version(), "gradwire": gradwire.__version__,
            "host": _host(), "has_key": _has_key(options)}


def _conflict(workers: "list[dict[str, Any]]") -> Optional[str]:
    """Returns why these workers cannot be one job."""
    for field, what in (("world_size", "world size"), ("torch", "version of PyTorch"),
                        ("gradwire", "version of gradwire")):
        for worker in workers:
            if worker[field] != workers[0][field]:
                return (f"workers differ in {what}: {workers[0]['name']} has {workers[0][field]}, {worker['name']} has "
                        f"{worker[field]}")
    names: "dict[str, int]" = {}
    for rank, worker in enumerate(workers):
        if worker["name"] in names:
            return (f"RPC worker name {worker['name']} is not unique. Workers {names[worker['name']]} and {rank} "
                    "cannot share a name")
        names[worker["name"]] = rank
    return None


# ---- The store ---------------------------------------------------------------------------------------------------
def _open_no_store(url: str, **_: Any) -> "Iterator[tuple[Any, int, int]]":
    """The rendezvous of torch for JOINED: an empty store, as the workers have met."""
    yield dist.HashStore(), -1, -1


def register() -> None:
    """Adds JOINED to torch's rendezvous."""
    with contextlib.suppress(RuntimeError):  # it is registered already
        dist.register_rendezvous_handler(urlparse(JOINED).scheme, _open_no_store)


def _get(store: Any, key: str, until: float, what: str) -> Any:
    """Waits for a value of the store, for at most a second at a time: so that Ctrl+C ends it."""
    while True:
        try:
            store.wait([key], _TURN)
            return json.loads(store.get(key))
        except RuntimeError as error:
            if time.monotonic() >= until:
                raise RuntimeError(f"gradwire: {what}: {error}") from error
            time.sleep(0.02)


def _gather(store: Any, own: "dict[str, Any]", until: float) -> "list[dict[str, Any]]":
    others = range(1, own["world_size"])
    return [own, *(_get(store, f"gradwire/worker/{rank}", until, f"rank {rank} has not joined") for rank in others)]


# ---- The address, and the file of the key ------------------------------------------------------------------------
def _own_address(options: GradwireRpcBackendOptions) -> str:
    """Returns an address of this host that others can reach: that of torch's store, if it is here."""
    url = urlparse(options.init_method)
    candidates = [url.hostname, os.environ.get("MASTER_ADDR"), socket.gethostname()]
    for candidate in filter(None, candidates):
        with contextlib.suppress(OSError), socket.socket() as probe:
            address = socket.gethostbyname(candidate)
            probe.bind((address, 0))
            return address
    raise RuntimeError("gradwire: rank 0 has no address that other hosts can reach; set MASTER_ADDR to one of its own")


@contextlib.contextmanager
def _on_port(options: GradwireRpcBackendOptions) -> "Iterator[tuple[str, Optional[str]]]":
    """A port of rank 0: a socket that does not listen reserves it until rank 0 has joined."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((_own_address(options), 0))
        host, port = reserved.getsockname()
        yield f"tcp://{host}:{port}", None


@contextlib.contextmanager
def _in_directory(has_key: bool) -> "Iterator[tuple[str, Optional[str]]]":
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-"))
    try:
        yield f"file://{directory}/job", None if has_key else _write_key(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _address_for(workers: "list[dict[str, Any]]", options: GradwireRpcBackendOptions) -> Any:
    if any(worker["host"] != workers[0]["host"] for worker in workers):
        return _on_port(options)
    return _in_directory(any(worker["has_key"] for worker in workers))


@contextlib.contextmanager
def _lead(store: Any, own: "dict[str, Any]", options: GradwireRpcBackendOptions, until: float) -> Iterator[Place]:
    try:
        workers = _gather(store, own, until)
        why = _conflict(workers)
    except RuntimeError as error:
        workers, why = [], str(error)
    if why:
        store.set("gradwire/job", json.dumps({"error": why}))
        raise RuntimeError(why)
    with _address_for(workers, options) as (address, key):
        place = Place(address, key, [worker["name"] for worker in workers])
        store.set("gradwire/job", json.dumps(asdict(place)))
        yield place


@contextlib.contextmanager
def meet(store: Any, name: str, rank: int, world_size: int, options: GradwireRpcBackendOptions) -> Iterator[Place]:
    """Returns the place, which exists until the block ends: when this worker has joined there."""
    until = time.monotonic() + options.join_timeout
    own = _describe(name, world_size, options)
    if rank == 0:
        with _lead(store, own, options, until) as place:
            yield place
        return
    store.set(f"gradwire/worker/{rank}", json.dumps(own))
    found = _get(store, "gradwire/job", until + 10, "rank 0 has not joined")
    if "error" in found:
        raise RuntimeError(found["error"])
    yield Place(**found)
