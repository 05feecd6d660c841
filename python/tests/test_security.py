"""Who may make this worker load pickles, and which."""
import pickle

import gradwire as gw
import pytest
from gradwire import _core
from worker import joins_itself

OTHER = "worker1"


def add(a, b):
    return a + b


@gw.function("sum")
def served(a, b):
    return a + b


@gw.function("restricted", callers="other%d")
def restricted():
    return 1


@gw.function("fails")
def fails():
    raise ValueError("bad")


def without_pickles(rank):
    if rank != 0:
        return
    assert gw.rpc_sync(OTHER, "sum", (1, 2)) == 3
    with pytest.raises(gw.RemoteError, match="ValueError: bad"):
        gw.rpc_sync(OTHER, "fails")
    for call in (gw.rpc_sync, gw.rpc_async, gw.remote, gw.notify):
        with pytest.raises(gw.UnsupportedError):
            call(OTHER, add, (1, 2))
    for name in ("py.call", "py.object"):
        with pytest.raises(gw.NotFoundError):
            _core.call(OTHER, name, (pickle.dumps((add, (1, 2), {})),), -1, 0, False)
    with pytest.raises(gw.UnsupportedError):
        gw.rpc_sync(OTHER, "restricted")


def objects_without_pickles(rank):
    """All members are refused alike, so that none of them waits."""
    for call in (lambda: gw.all_gather_object(rank), lambda: gw.gather_object(rank), lambda: gw.broadcast_object(rank),
                 lambda: gw.scatter_object([1, 2] if rank == 0 else None)):
        with pytest.raises(gw.UnsupportedError, match="makes no pickles"):
            call()
    gw.barrier()


def test_collectives_of_objects_need_pickles(job):
    job(2, objects_without_pickles, pickle=False)


def test_a_worker_without_pickles_serves_names_alone(job):
    job(2, without_pickles, pickle=False)


class Evil:
    def __reduce__(self):
        return __import__("os").putenv, ("A", "B")


def some_modules(rank):
    if rank == 0:
        assert gw.rpc_sync(OTHER, add, (1, 2)) == 3
        assert gw.remote(OTHER, add, (1, gw.rpc_async(OTHER, add, (1, 2)))).to_here() == 4
        with pytest.raises(pickle.UnpicklingError, match="pickle_modules"):
            gw.rpc_sync(OTHER, add, (Evil(), 1))


def test_pickles_load_from_named_modules(job):
    job(2, some_modules, pickle_modules=["test_security", "pickle", "_pickle", "builtins"])


@joins_itself
def insecure():
    options = dict(rank=0, world_size=1, init_method="tcp://127.0.0.1:0")
    with pytest.raises(gw.UnsupportedError, match="without a key"):
        gw.init(insecure=True, **options)
    gw.init(insecure=True, pickle=False)
    gw.shutdown()
    gw.init(insecure=True, insecure_pickle=True)
    gw.shutdown()
    gw.init()
    assert gw.rpc_sync(0, add, (1, 2)) == 3
    gw.shutdown()


def test_pickles_need_a_key_beyond_this_host(job):
    ended = job(1, insecure)
    assert "no key protects" in ended.errors
