"""Groups, and collectives on arrays and objects."""
import array
import os
import signal

import gradwire as gw
import numpy as np
import pytest


def in_place(rank):
    n = gw.world_size()
    x = np.full((2, 3), rank + 1.0)
    assert gw.all_reduce(x) is x and (x == 6).all()
    y = np.arange(4.0)[::2] + rank
    view = np.zeros((4, 2))[:, 0][:2]
    view[:] = y
    gw.all_reduce(view, op="max")  # not contiguous
    assert (view == [2, 4]).all()
    z = gw.all_reduce(np.float32([rank]), op="avg", new=True, factor=2.0)
    assert z == 2.0 and z.dtype == np.float32
    i = np.int64([1 << rank])
    gw.all_reduce(i, op="bor")
    assert i == 7
    r = np.full(3, rank)
    gw.reduce(r, root=1)
    assert (r == (3 if rank == 1 else rank)).all()
    b = np.full(5, rank)
    gw.broadcast(b, root=2)
    assert (b == 2).all()
    a = array.array("d", [rank, 1])
    gw.all_reduce(a)
    assert a.tolist() == [3, n]
    future = gw.all_reduce(x, async_op=True)
    other = gw.barrier(async_op=True)
    assert future.wait() is x and (x == 18).all() and other.wait() is None


def test_collectives_write_in_place(job):
    job(3, in_place)


def new_arrays(rank):
    rows = gw.all_gather(np.full((rank + 1, 2), rank))
    assert rows.shape == (6, 2) and rows[:, 0].tolist() == [0, 1, 1, 2, 2, 2]
    assert [x.shape for x in gw.all_gather_list(np.zeros(rank))] == [(0,), (1,), (2,)]
    g = gw.gather(np.full(2, rank), root=1)
    assert g.tolist() == [0, 0, 1, 1, 2, 2] if rank == 1 else g is None
    s = gw.scatter([np.full(i, i) for i in range(3)] if rank == 0 else None)
    assert s.tolist() == [rank] * rank
    assert gw.reduce_scatter(np.arange(6)).tolist() == [6 * rank, 6 * rank + 3]
    assert gw.reduce_scatter(np.arange(6), sizes=[1, 2, 3]).shape == (rank + 1,)
    assert gw.all_to_all(np.full(3, rank)).tolist() == [0, 1, 2]
    gw.monitored_barrier()


def test_collectives_return_new_arrays(job):
    job(3, new_arrays)


def objects(rank):
    big = np.full(5000, rank)
    all_of = gw.all_gather_object({"rank": rank, "x": big})
    assert [o["rank"] for o in all_of] == [0, 1, 2] and all((o["x"] == o["rank"]).all() for o in all_of)
    gathered = gw.gather_object((rank, None), root=2)
    assert gathered == ([(0, None), (1, None), (2, None)] if rank == 2 else [])
    assert gw.broadcast_object({"a"} if rank == 1 else lambda: 1, root=1) == {"a"}
    assert gw.scatter_object(["a", None, (3,)] if rank == 0 else None) == ["a", None, (3,)][rank]
    counter = gw.broadcast_object(gw.RRef([0]) if rank == 0 else None)
    counter.rpc_sync().append(rank)
    gw.barrier()
    assert sorted(counter.to_here()) == [0, 0, 1, 2]
    gw.barrier()


def test_collectives_of_objects(job):
    job(3, objects)


def messages(rank):
    right, left = (rank + 1) % 3, (rank - 1) % 3
    sent = gw.isend(np.full(4, rank), right, tag=5)
    assert gw.recv(left, tag=5).tolist() == [left] * 4
    sent.wait()
    into = np.zeros(2)
    results = gw.batch([lambda: gw.isend(np.full(2, float(rank)), left), lambda: gw.irecv(right, into=into)])
    assert results[1] is into and (into == right).all()
    if rank == 0:
        got = dict(gw.recv(tag=9) for _ in range(2))
        assert {k: v.tolist() for k, v in got.items()} == {1: [1], 2: [2]}
    else:
        gw.send(np.int32([rank]), 0, tag=9)


def test_members_send_messages(job):
    job(3, messages)


def groups(rank):
    world = gw.Group.world("everyone")
    assert (world.rank, world.size, world.name, world.generation, world.pending) == (rank, 3, "everyone", 0, 0)
    assert [w.rank for w in world.workers()] == [0, 1, 2]
    if rank < 2:
        pair = gw.Group.open(["worker1", 0])
        assert pair.rank == 1 - rank
        assert gw.all_reduce(np.int64([rank]), group=pair) == 1
    part = world.split(color=rank % 2 if rank < 2 else -1)
    assert part is None if rank == 2 else part.size == 1
    assert world.blocks(1).size == 1
    assert world.agree(0b110 | rank) == (0b110, [])
    gw.barrier(world)
    assert "barrier" in world.history()


def test_groups_are_opened_and_split(job):
    job(3, groups)


def mismatches(rank):
    with pytest.raises(gw.MismatchError, match="worker0"):
        gw.all_reduce(np.zeros(rank + 1))
    for bad in (lambda: gw.all_reduce(np.zeros(2, "c8")), lambda: gw.all_reduce(np.zeros(2), op="mean"),
                lambda: gw.all_reduce("text"), lambda: gw.all_reduce(None)):
        with pytest.raises((TypeError, ValueError)):
            bad()
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError):
        gw.all_reduce(frozen)
    assert gw.all_reduce(np.ones(2)).tolist() == [2, 2]


def test_wrong_collectives_are_errors_on_all_members(job):
    job(2, mismatches)


def survivors(rank):
    group = gw.Group.world("team")
    gw.barrier(group)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(gw.DisconnectedError, match="worker2"):
        gw.barrier(group)
    flags, missing = group.agree(1)
    assert flags == 1 and missing == [2]
    group = group.reform(minimum=2)
    assert (group.size, group.generation) == (2, 1)
    assert gw.all_reduce(np.ones(1), group=group) == 2


def test_the_others_continue_after_a_loss(job):
    ended = job(3, survivors, code=None, run_options=("--on-failure", "keep"))
    assert "Traceback" not in ended.errors, ended.errors
