"""Threads, the GIL, and memory over many calls."""
import gc
import os
import resource
import threading

import gradwire as gw
import numpy as np

OTHER = "worker1"
SCALE = int(os.environ.get("SCALE", "1"))


def add(a, b):
    return a + b


def add_here(a, b):
    """Calls back from a thread of the pool."""
    return gw.rpc_sync(0, add, (a, b))


def threads(rank):
    if rank != 0:
        return
    errors = []

    def work(number):
        try:
            for i in range(1000 // SCALE):
                assert gw.rpc_sync(OTHER, add, (number, i)) == number + i
                if i % 50 == 0:
                    assert gw.rpc_async(OTHER, add_here, (number, i)).wait() == number + i
                    x = np.full(2000, number)
                    assert (gw.rpc_sync(OTHER, add, (x, i)) == number + i).all()
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    assert not errors, errors


def test_threads_call_at_once(job):
    job(2, threads)


_lock = threading.Lock()
_local = threading.local()


def locked(x):
    with _lock:
        return x


def local():
    assert threading.current_thread().name.startswith("gradwire-pool-")
    _local.count = getattr(_local, "count", 0) + 1
    return threading.get_ident(), _local.count


def holds_lock(rank):
    """A thread that waits for a call holds a lock of Python, which bodies on this worker need, too."""
    if rank == 0:
        waiting = gw.rpc_async(OTHER, calls_back)
        with _lock:
            assert gw.rpc_sync(OTHER, add, (1, 2)) == 3
        assert waiting.wait() == 5
        counts = {}
        for ident, count in (gw.rpc_sync(OTHER, local) for _ in range(100)):
            assert count == counts.get(ident, 0) + 1  # a thread of the pool keeps its locals
            counts[ident] = count


def calls_back():
    return gw.rpc_sync(0, locked, (5,))


def test_a_waiting_thread_may_hold_a_lock(job):
    job(2, holds_lock)


class Finalized:
    def __init__(self, ref):
        self.ref = ref

    def __del__(self):
        gw.rpc_sync(OTHER, add, (1, 2))


def finalizers(rank):
    if rank == 0:
        x = Finalized(gw.RRef(1))
        x.itself = x
        del x
        gc.collect()
        f = gw.rpc_async(OTHER, add, (1, 1))
        f.add_done_callback(lambda f: 1 // 0)  # logged, and nothing else
        f.add_done_callback(lambda f: gw.rpc_sync(OTHER, add, (1, 1)))
        assert f.wait() == 2


def test_calls_in_finalizers_and_callbacks(job):
    ended = job(2, finalizers)
    assert "ZeroDivisionError" in ended.errors


def held_bytes():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


class Small:
    def __init__(self, x):
        self.x = x

    def get(self):
        return self.x


def rounds(count):
    x = np.ones(3000)
    for i in range(count):
        gw.rpc_sync(OTHER, add, (i, 1))
        if i % 10 == 0:
            gw.rpc_async(OTHER, add, (x, 1)).then(lambda f: f.value()).wait()
            gw.remote(OTHER, Small, (i,)).rpc_sync().get()
            gw.rpc_sync(OTHER, "gw.add", (x, 1))
            try:
                gw.rpc_sync(OTHER, add, ("a", 1))
            except TypeError:
                pass


def memory(rank):
    """Both workers have as much memory after 100,000 calls as after 20,000."""
    if rank == 0:
        rounds(20_000 // SCALE)
        before = held_bytes(), gw.rpc_sync(OTHER, held_bytes)
        rounds(80_000 // SCALE)
        after = held_bytes(), gw.rpc_sync(OTHER, held_bytes)
        for b, a in zip(before, after):
            assert a - b < 8 << 20, (before, after)
        gc.collect()
        while gw.rpc_sync(OTHER, gw.owned_count):
            continue


def test_memory_stays_the_same(job):
    job(2, memory)
