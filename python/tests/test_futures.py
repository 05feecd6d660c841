"""Futures, callbacks, functions that reply later, and asyncio."""
import asyncio
import os
import signal
import threading

import gradwire as gw
import numpy as np
import pytest

OTHER = "worker1"


def add(a, b):
    return a + b


def chains(rank):
    if rank != 0:
        return
    f = gw.rpc_async(OTHER, add, (1, 2))
    g = f.then(lambda f: f.value() + 1).then(lambda f: gw.rpc_sync(OTHER, add, (f.value(), 10)))
    assert g.wait() == 14
    assert f.then(lambda f: gw.rpc_async(OTHER, add, (f.value(), 1))).wait() == 4  # a future is followed
    seen = gw.Future()
    f.add_done_callback(seen.set_result)
    assert seen.wait() == 3
    both = gw.collect_all([f, g]).wait()
    assert [x.value() for x in both] == [3, 14] and gw.collect_all([]).wait() == []
    assert gw.wait_all([f, g]) == [3, 14]
    assert {x.wait() for x in gw.as_completed([f, g, gw.rpc_async(OTHER, add, (5, 5))])} == {3, 14, 10}
    assert gw.wait_any([gw.Future(), f]) == 1
    assert f.concurrent().result() == 3
    with pytest.raises(ZeroDivisionError):
        f.then(lambda f: 1 // 0).wait()


def test_futures_chain(job):
    job(2, chains)


def own(rank):
    if rank != 0:
        return
    f = gw.Future()
    assert not f.done()
    with pytest.raises(gw.WrongStateError):
        f.value()
    value = threading.Lock()  # a future of this process carries anything
    f.set_result(value)
    assert f.done() and f.wait() is value and f.value() is value and f.exception() is None
    for again in (lambda: f.set_result(1), lambda: f.set_exception(ValueError())):
        with pytest.raises(gw.WrongStateError):
            again()
    g = gw.Future()
    g.set_exception(KeyError("k"))
    assert isinstance(g.exception(), KeyError)
    with pytest.raises(KeyError):
        g.wait()
    h = gw.Future()
    h.cancel()
    with pytest.raises(gw.CancelledError):
        h.wait()
    with pytest.raises(gw.WrongStateError):
        gw.rpc_async(OTHER, add, (1, 2)).set_result(3)
    with pytest.raises(TypeError):
        gw.Future().set_exception("text")


def test_the_program_resolves_futures(job):
    job(2, own)


def as_arguments(rank):
    if rank != 0:
        return
    slow = gw.Future()
    f = gw.rpc_async(OTHER, add, (slow, gw.rpc_async("worker2", add, (1, 1))))
    assert not f.done()
    slow.set_result(5)
    assert f.wait() == 7
    plain = gw.rpc_async(OTHER, "gw.add", (np.ones(()), 2.0))
    assert gw.rpc_sync("worker2", add, (plain, 1)) == 4.0
    assert gw.rpc_sync("worker2", "gw.add", (plain, f)) == 10.0
    assert gw.rpc_sync("worker2", sum, ([f, f, plain],)) == 17.0


def test_futures_are_arguments_before_they_resolve(job):
    job(3, as_arguments)


def pair(a, b):
    return float(a.sum()), float(b.sum())


def tensors_of_futures(rank):
    mine = np.full(5000, 2.0)
    total = gw.all_reduce(mine, async_op=True, new=True)  # of all members
    if rank == 0:
        # The value of a future is a tensor, and so is each large buffer of the pickle.
        ones, twos = np.ones(5000), np.full(5000, 2.0)
        f = gw.rpc_async(OTHER, "gw.add", (ones, ones))
        assert gw.rpc_sync("worker2", pair, (f, ones)) == (10000, 5000)
        assert gw.rpc_sync("worker2", pair, (twos, f)) == (10000, 10000)
        assert gw.rpc_sync("worker2", pair, (ones, total)) == (5000, 30000)
    assert (total.wait() == 6).all()


def test_values_of_futures_are_not_taken_for_buffers(job):
    job(3, tensors_of_futures)


async def cancels_itself():
    task = asyncio.ensure_future(asyncio.sleep(3600))
    task.cancel()
    await task


def ends_too_early():
    gw.leave()


def ends(rank):
    if rank != 0:
        return
    with pytest.raises(BaseException, match="cancelled"):
        gw.rpc_sync(OTHER, cancels_itself)
    with pytest.raises(gw.WrongStateError):
        gw.rpc_sync(OTHER, ends_too_early)
    assert gw.rpc_sync(OTHER, add, (1, 2)) == 3


def test_cancelled_coroutines_and_early_ends_fail_their_calls_alone(job):
    job(2, ends)


class Batch:
    """One reply for the calls of all workers."""

    def __init__(self, size):
        self.size, self.sum, self.count, self.future = size, 0, 0, gw.Future()

    @gw.async_execution
    def add(self, x):
        self.sum, self.count = self.sum + x, self.count + 1
        future = self.future
        if self.count == self.size:
            self.sum, self.count, self.future, total = 0, 0, gw.Future(), self.sum
            future.set_result(total)
        return future


@gw.async_execution
def in_turn(to, x):
    return gw.rpc_async(to, add, (x, 1)).then(lambda f: f.value() * 10)


@gw.async_execution
def not_a_future():
    return 3


def replies_later(rank):
    if rank == 0:
        batch = gw.remote(OTHER, Batch, (50,))
        sums = gw.wait_all([batch.rpc_async().add(i) for i in range(100)])
        assert len(set(sums)) == 2  # calls of one batch have one reply
        assert sum(set(sums)) == sum(range(100))
        assert gw.rpc_sync(OTHER, in_turn, ("worker2", 4)) == 50
        assert gw.remote(OTHER, in_turn, ("worker2", 4)).to_here() == 50
        with pytest.raises(TypeError, match="returned no Future"):
            gw.rpc_sync(OTHER, not_a_future)


def test_functions_reply_later_and_hold_no_thread(job):
    job(3, replies_later, threads=1)


async def double(x):
    return 2 * await gw.rpc_async("worker0", add, (x, 0))


async def fails():
    await asyncio.sleep(0)
    raise KeyError("k")


def coroutines(rank):
    if rank != 0:
        return

    async def main():
        assert await gw.rpc_async(OTHER, add, (1, 2)) == 3
        doubled = await asyncio.gather(*(gw.rpc_async(OTHER, double, (i,)) for i in range(50)))
        assert doubled == [2 * i for i in range(50)]
        with pytest.raises(KeyError):
            await gw.rpc_async(OTHER, fails)
        future = gw.rpc_async(OTHER, never)
        task = asyncio.create_task(wait(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(gw.CancelledError):
            await future

    async def wait(future):
        return await future

    asyncio.run(main())
    assert gw.rpc_sync(OTHER, double, (4,)) == 8
    assert gw.remote(OTHER, double, (4,)).to_here() == 8


def never():
    return gw.Future().wait()


def test_coroutines_wait_for_futures(job):
    job(2, coroutines)


def count_waits(rank):
    if rank == 0:
        results = []
        threads = [threading.Thread(target=lambda: results.append(f.wait())) for _ in range(8)]
        f = gw.Future()
        for t in threads:
            t.start()
        f.set_result(3)
        for t in threads:
            t.join()
        assert results == [3] * 8


def test_several_threads_wait_for_one_future(job):
    job(1, count_waits)


def raises_interrupt():
    raise KeyboardInterrupt("of the function")


def interrupts_here(_):
    os.kill(os.getpid(), signal.SIGINT)
    while True:  # until the handler has run
        pass


def exceptions(rank):
    """exception() returns what the future has failed with, and raises what interrupts its caller."""
    if rank != 0:
        return
    failed = gw.rpc_async(OTHER, raises_interrupt)
    assert isinstance(failed.exception(), KeyboardInterrupt) and "of the function" in str(failed.exception())
    local = gw.Future()
    local.set_exception(KeyboardInterrupt("here"))
    assert str(local.exception()) == "here"
    f = gw.rpc_async(OTHER, len, ("abc",))
    gw.wait_any([f])
    f._convert = interrupts_here
    with pytest.raises(KeyboardInterrupt):
        f.exception()
    f._convert = None
    assert f.exception() is None and f.value() == 3


def test_exception_raises_what_interrupts_it(job):
    job(2, exceptions)
