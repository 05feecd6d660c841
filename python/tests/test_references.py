"""References: objects that stay with their owners, counted over all workers."""
import gc

import gradwire as gw
import numpy as np
import pytest

OTHER = "worker1"
live = 0  # objects of Counter in this process


class Counter:
    def __init__(self, n=0):
        global live
        live += 1
        self.n = n

    def __del__(self):
        global live
        live -= 1

    def add(self, k, times=1):
        self.n += k * times
        return self.n

    def get(self):
        return self

    def double_of(self, other):
        return 2 * other.rpc_sync().add(0)

    async def later(self, k):
        return self.add(k)

    @gw.async_execution
    def later_too(self, k):
        future = gw.Future()
        future.set_result(self.add(k))
        return future


def live_there():
    gc.collect()
    return live


def await_release():
    """Ends when the other worker has no object left; the limit of the test ends a leak."""
    gc.collect()
    while gw.rpc_sync(OTHER, gw.owned_count) or gw.rpc_sync(OTHER, live_there):
        continue


def uses(rank):
    if rank == 0:
        r = gw.remote(OTHER, Counter, (3,))
        assert r.rpc_sync().add(4) == 7
        assert r.rpc_sync().add(2, times=2) == 11
        assert r.rpc_async().add(1).wait() == 12
        assert r.remote().add(1).to_here() == 13
        assert r.remote().get().rpc_sync().add(1) == 14
        assert r.rpc_sync().later(1) == 15 and r.rpc_async().later_too(1).wait() == 16
        copy = r.to_here()
        assert type(copy) is Counter and copy.n == 16
        assert r.owner() == gw.worker(OTHER) and r.owner_name() == OTHER and not r.is_owner()
        assert r.confirmed_by_owner()
        with pytest.raises(gw.InvalidError):
            r.local_value()
        with pytest.raises(AttributeError):
            r.rpc_sync().no_such_method()
        del r, copy
        await_release()


def test_references_call_methods_and_are_released(job):
    job(2, uses)


def pass_on(ref):
    return ref


def use(ref, k):
    return ref.rpc_sync().add(k), ref.owner_name(), ref.is_owner()


_kept = []


def keep(refs):
    _kept.extend(refs["list"])


def use_kept():
    return [r.rpc_sync().add(1) for r in _kept]


def drop():
    _kept.clear()


def travels(rank):
    if rank == 0:
        r = gw.remote(OTHER, Counter, (3,))
        assert gw.rpc_sync("worker2", use, (r, 1)) == (4, OTHER, False)
        assert gw.rpc_sync(OTHER, use, (r, 1)) == (5, OTHER, True)
        back = gw.rpc_sync("worker2", pass_on, (r,))
        assert back.rpc_sync().add(1) == 6
        s = gw.remote("worker2", Counter, (10,))
        assert s.rpc_sync().double_of(r) == 12
        gw.rpc_sync("worker2", keep, ({"list": [r, back]},))
        del r, back, s
        gc.collect()
        assert gw.rpc_sync("worker2", use_kept) == [7, 8]  # its references keep the object
        gw.rpc_sync("worker2", drop)
        await_release()


def test_references_travel_between_workers(job):
    job(3, travels)


def own(rank):
    if rank == 0:
        value = [1, 2]
        r = gw.RRef(value)
        assert r.is_owner() and r.local_value() is value and r.to_here() is value and r.confirmed_by_owner()
        assert gw.rpc_sync(OTHER, fetch, (r,)) == value
        c = Counter(1)
        mine = gw.RRef(c)
        assert gw.rpc_sync(OTHER, use, (mine, 5)) == (6, "worker0", False)
        assert c.n == 6
        for make in (lambda: __import__("pickle").dumps(r), lambda: __import__("pickle").dumps(gw.Future())):
            with pytest.raises(TypeError):
                make()


def fetch(ref):
    return ref.to_here()


def test_values_of_this_worker_have_references(job):
    job(2, own)


def name_it():
    gw.RRef(Counter(5)).set_name("shared")


def names(rank):
    if rank == 0:
        gw.rpc_sync(OTHER, name_it)
        r = gw.named(OTHER, "shared")
        assert r.rpc_sync().add(1) == 6 and gw.named(1, "shared").rpc_sync().add(1) == 7
        with pytest.raises(gw.TimeoutError):
            gw.named(OTHER, "other", timeout=0.05)


def test_an_owner_names_a_value(job):
    job(2, names)


def by_value(rank):
    if rank == 0:
        r = gw.remote(OTHER, list, ((1, 2, 3),))
        assert gw.rpc_sync("worker2", len, (r.by_value(),)) == 3
        x = gw.remote(OTHER, "gw.add", (np.ones(2), 2))  # a value of the library
        assert (gw.rpc_sync("worker2", "gw.mul", (x, 2.0)) == [6, 6]).all()
        assert x.to_here().sum() == 6 and gw.rpc_sync("worker2", sum, (x.by_value(),)) == 6
        assert [r["what"] for r in gw.rpc_sync(OTHER, gw.references)]


def test_a_value_passes_from_its_owner_to_the_callee(job):
    job(3, by_value)


def turns(rank):
    if rank == 0:
        r = gw.remote(OTHER, Counter)
        assert sorted(gw.wait_all([r.rpc_async().add(1) for _ in range(200)])) == list(range(1, 201))


def test_methods_of_an_object_run_one_at_a_time(job):
    job(2, turns)


@gw.cls("ticket")
class Ticket:
    """A served class with methods that are named as those of the library's own objects."""

    def id(self):
        return 7

    def fetch(self):
        return 8

    def call(self, x):
        return x


@gw.function("use_ticket")
def use_ticket(r):
    """A call by name has passed the reference: what it refers to is not known here."""
    return [r.rpc_sync().id(), r.rpc_sync().fetch(), r.rpc_sync().call(9)]


def tickets(rank):
    if rank != 0:
        return
    r = gw.remote(OTHER, "ticket")
    for to in (0, OTHER, "worker2"):
        assert gw.rpc_sync(to, "use_ticket", (r,)) == [7, 8, 9]
    counter = gw.remote(OTHER, Counter)
    assert gw.rpc_sync("worker2", "add_to", (counter,)) == 5


@gw.function("add_to")
def add_to(r):
    return r.rpc_sync().add(5)


def test_methods_of_served_classes_have_any_names(job):
    job(3, tickets)
