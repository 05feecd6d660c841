"""Calls: all ways to make one, what they carry, and how they are run."""
import threading

import gradwire as gw

OTHER = "worker1"


def add(a, b=1):
    return a + b


def who():
    return gw.worker().name


def ways(rank):
    if rank != 0:
        return
    assert gw.rpc_sync(OTHER, add, (1, 2)) == 3
    assert gw.rpc_sync(OTHER, add, (1,)) == 2
    assert gw.rpc_sync(OTHER, add, (), {"a": 2, "b": 5}) == 7
    assert gw.rpc_async(OTHER, add, ("x", "y")).wait() == "xy"
    assert gw.remote(OTHER, add, (5, 6)).to_here() == 11
    assert gw.rpc_sync(OTHER, len, ([1, 2, 3],)) == 3
    assert gw.rpc_sync(OTHER, dict, (), {"a": 1}) == {"a": 1}
    assert gw.rpc_sync("worker0", add, (1, 1)) == 2  # itself


def test_calls_return_results(job):
    job(2, ways)


def receivers(rank):
    if rank != 0:
        return
    assert gw.world_size() == 2 and gw.worker() == gw.workers()[0]
    assert gw.worker(1).name == OTHER and gw.worker(OTHER).rank == 1 and gw.worker(OTHER).id == 1
    for to in (1, OTHER, gw.worker(1), gw.remote(1, add, (1, 2))):
        assert gw.rpc_sync(to, who) == OTHER
    assert gw.workers_named("worker%d") == gw.workers()
    assert "shm" in gw.path(1) or "tcp" in gw.path(1)


def test_workers_have_names_and_ranks(job):
    job(2, receivers)


_noted = []
_note = threading.Event()


def note(x):
    _noted.append(x)
    _note.set()


def noted():
    _note.wait()
    return _noted


def notifies(rank):
    if rank == 0:
        gw.notify(OTHER, note, (7,))
        assert gw.rpc_sync(OTHER, noted) == [7]


def test_a_notification_has_no_reply(job):
    job(2, notifies)


def descend(depth):
    """Calls the other worker, which calls this one, and so on."""
    if depth == 0:
        return 0
    return 1 + gw.rpc_sync(1 - gw.rank(), descend, (depth - 1,))


def nests(rank):
    if rank == 0:
        assert descend(40) == 40


def test_nested_calls_need_no_thread_each(job):
    job(2, nests, threads=1)


def many(rank):
    if rank == 0:
        futures = [gw.rpc_async(OTHER, add, (i, i)) for i in range(1000)]
        assert gw.wait_all(futures) == [2 * i for i in range(1000)]
        assert gw.stats()["calls_made"] >= 1000


def test_many_calls_are_under_way_at_once(job):
    job(2, many)


def all_of_them(rank):
    if rank == 0:
        assert gw.rpc_sync_all(gw.workers(), who) == ["worker0", "worker1", "worker2"]
        assert gw.rpc_async_all([1, 2], add, (1, 2)).wait() == [3, 3]


def test_one_call_reaches_several_workers(job):
    job(3, all_of_them)


class Custom:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value


def echo(x):
    return x


def values(rank):
    if rank == 0:
        for x in (None, True, 3, 2**80, 1.5, "ä\0", b"\0", (1, [2]), {"a": {3}}, Custom([1]), b"x" * 200_000,
                  list(range(50_000)), ...):
            assert gw.rpc_sync(OTHER, echo, (x,)) == x
            assert gw.rpc_async(OTHER, echo, (x,)).wait() == x
            assert gw.remote(OTHER, echo, (x,)).to_here() == x


def test_anything_that_pickles_is_carried(job):
    job(2, values)


def over_tcp(rank):
    ways(rank)
    if rank == 0:
        assert "tcp" in gw.path(1)


def test_calls_work_over_tcp_with_a_key(job, tmp_path):
    import subprocess

    from conftest import BUILD

    key = tmp_path / "job.key"
    with key.open("w") as out:
        key.chmod(0o600)
        subprocess.run([str(BUILD / "bin" / "gradwire"), "key"], stdout=out, check=True)
    job(2, over_tcp, run_options=("--key", str(key)), variables={"GW_TRANSPORT": "tcp"})
