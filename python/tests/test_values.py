"""Arrays, buffers, and plain values of calls by name."""
import gc
import pickle

import gradwire as gw
import numpy as np
import pytest

OTHER = "worker1"


def echo(*x):
    return x[0] if len(x) == 1 else x


def describe(x):
    return x.dtype.str, x.shape, x.flags.writeable, float(x.sum())


def write(x):
    x[...] = 3
    return x


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?", "u4", "c8", ">f4", "U3", "M8[s]"]
SHAPES = [(), (0,), (3,), (2, 0, 3), (70, 30), (5000,), (3, 50, 200)]


def pickled(rank):
    if rank != 0:
        return
    for dtype in DTYPES:
        for shape in SHAPES:
            x = np.ones(shape, "i4").astype(dtype)
            y = gw.rpc_sync(OTHER, echo, (x,))
            assert y.dtype == x.dtype and y.shape == x.shape and (y == x).all() and y.flags.writeable
    big = np.arange(100_000.0).reshape(100, 1000)
    for x in (big[:, ::2], big.T, np.asfortranarray(big), big[10:90], np.broadcast_to(big[0], (3, 1000))):
        assert (gw.rpc_sync(OTHER, echo, (x,)) == x).all()
    objects = np.array([1, "a", None], object)
    assert (gw.rpc_sync(OTHER, echo, (objects,)) == objects).all()
    assert bytes(gw.rpc_sync(OTHER, echo, (pickle.PickleBuffer(bytearray(b"x" * 9000)),))) == b"x" * 9000
    halves, y, kept = gw.rpc_sync(OTHER, echo, (gw.empty((2, 3), "bf16"), big, gw.empty(1, "bf16")))
    assert (halves.dtype, halves.shape, kept.shape) == ("bf16", (2, 3), (1,)) and (y == big).all()
    x, y = gw.rpc_sync(OTHER, echo, (big, big))
    assert (x == big).all() and (y == big).all()
    many = [np.full(2000, i) for i in range(1500)]  # more buffers than a call has arguments
    assert all((a == b).all() for a, b in zip(gw.rpc_sync(OTHER, echo, (many,)), many))


def test_arrays_are_carried(job):
    job(2, pickled)


def memory(rank):
    if rank != 0:
        return
    x = np.zeros(50_000)
    f = gw.rpc_async(OTHER, echo, (x,))
    x[:] = 1  # after the call has returned
    assert f.wait().sum() == 0
    assert (gw.rpc_sync(OTHER, write, (np.zeros(50_000),)) == 3).all()
    y = gw.empty((100, 500), "float64")
    assert y.flags.writeable and y.sum() == 0
    y[:] = 2
    assert gw.rpc_sync(OTHER, describe, (y,)) == ("<f8", (100, 500), True, 100_000.0)
    gw.freeze(y)
    assert not y.flags.writeable
    assert gw.rpc_sync(OTHER, describe, (y,)) == ("<f8", (100, 500), False, 100_000.0)  # read-only as here
    assert (gw.rpc_sync(OTHER, write, (y.copy(),)) == 3).all() and (y == 2).all()
    with pytest.raises(ValueError):
        y[0] = 1
    with pytest.raises(TypeError):
        gw.freeze(np.zeros(3))
    r = gw.rpc_sync(OTHER, echo, (y,))
    del y
    gc.collect()
    assert (r == 2).all()
    assert gw.empty(3, "int16").dtype == np.int16 and gw.empty(2, "bf16").dtype == "bf16"
    with pytest.raises(TypeError):
        gw.empty(3, "complex64")


def test_memory_is_the_receivers_own(job):
    job(2, memory)


@gw.function("is_writeable")
def is_writeable(x):
    return bool(x.flags.writeable)


def read_only(rank):
    if rank == 0:
        x = np.ones(5000)
        assert gw.rpc_sync(OTHER, "is_writeable", (x,)) is False
        plain = gw.rpc_async(OTHER, "gw.add", (x, 1.0))
        r = gw.remote(OTHER, "gw.add", (x, 1.0))
        for y in (gw.rpc_sync(OTHER, "gw.add", (x, 1.0)), plain.wait(), r.to_here(), gw.rpc_sync(OTHER, echo, (x,))):
            assert y.sum() == 10000 or y.sum() == 5000
            assert not y.flags.writeable
        assert gw.rpc_sync(OTHER, describe, (np.ones(5000),)) == ("<f8", (5000,), False, 5000.0)


def test_received_arrays_can_be_read_only(job):
    job(2, read_only, readonly=True)


@gw.function("echo")
def plain_echo(x):
    return x


@gw.function("kinds")
def kinds(*xs):
    return [type(x).__name__ for x in xs]


@gw.function("add_later")
async def add_later(a, b):
    return a + await gw.rpc_async("worker0", "echo", (b,))


@gw.cls("counter")
class Counter:
    def __init__(self, n):
        self.n = n

    def add(self, k):
        self.n += k
        return self.n

    def _hidden(self):
        return 1


def plain(rank):
    if rank != 0:
        return
    x = np.arange(6, dtype="f4").reshape(2, 3)
    for value in (None, True, 7, -(2**63), 2.5, "ä", b"\0x", [1, [2, "3"]], {"a": {"b": [None]}}, gw.worker(1), "",
                  b"", [], {}):
        assert gw.rpc_sync(OTHER, "echo", (value,)) == value
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?"):
        for y in (x.astype(dtype), x.astype(dtype)[:, ::2], np.zeros((0, 3), dtype), np.ones((), dtype)):
            z = gw.rpc_sync(OTHER, "echo", (y,))
            assert z.dtype == y.dtype and z.shape == y.shape and (z == y).all()
    assert gw.rpc_sync(OTHER, "kinds", (x, (1,), {"k": 1}, gw.worker(0), np.float64(1), np.int32(3))) == \
        ["ndarray", "list", "dict", "Worker", "float", "ndarray"]
    assert (gw.rpc_sync(OTHER, "gw.add", (x, 1)) == x + 1).all()
    assert gw.rpc_sync(OTHER, "add_later", (1, 2)) == 3
    for bad, error in ((2**63, OverflowError), (1j, TypeError), (x.astype("c8"), TypeError),
                       (x.astype(">f4"), TypeError), (x.astype("u4"), TypeError), ({1: 2}, TypeError),
                       ("a\0b", ValueError), (object(), TypeError)):
        with pytest.raises(error):
            gw.rpc_sync(OTHER, "echo", (bad,))
    nested = []
    for _ in range(50):
        nested = [nested]
    with pytest.raises(ValueError):
        gw.rpc_sync(OTHER, "echo", (nested,))
    with pytest.raises(TypeError, match="keyword"):
        gw.rpc_sync(OTHER, "echo", (), {"x": 1})
    with pytest.raises(TypeError, match="positional"):
        gw.rpc_sync(OTHER, "echo", (1, 2))


def test_plain_values_are_mapped(job):
    job(2, plain)


def named_classes(rank):
    if rank == 0:
        c = gw.remote(OTHER, "counter", (3,))
        assert c.rpc_sync().add(4) == 7 and c.rpc_async().add(1).wait() == 8 and c.remote().add(1).to_here() == 9
        assert gw.rpc_sync(c, "add", (1,)) == 10
        with pytest.raises(gw.NotFoundError):
            c.rpc_sync()._hidden()
        assert gw.rpc_sync(OTHER, "echo", (c,)).rpc_sync().add(0) == 10
        mine = gw.remote(0, "counter", (1,))
        assert type(mine.local_value()) is Counter and mine.local_value().n == 1


def test_classes_are_served_by_name(job):
    job(2, named_classes)


def test_names_are_registered_once_and_before_init():
    with pytest.raises(ValueError):
        gw.function("echo")(echo)
    for name in ("gw.x", "py.x"):
        with pytest.raises(ValueError):
            gw.function(name)(echo)
