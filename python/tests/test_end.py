"""How workers end: with and without shutdown, by exceptions and signals, killed, forked."""
import atexit
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import conftest
import gradwire as gw
import pytest
from worker import joins_itself

OTHER = "worker1"


def pid():
    return os.getpid()


def never():
    return gw.Future().wait()


def kill_other(rank, sig=signal.SIGKILL):
    """Worker 0 waits for worker 1, which is killed meanwhile."""
    if rank == 1:
        gw.Future().wait()
    if rank == 0:
        ref = gw.remote(OTHER, list, ((1, 2),))
        assert ref.to_here() == [1, 2]
        waiting = gw.rpc_async(OTHER, never)
        lost = gw.member_lost([OTHER])
        os.kill(gw.rpc_sync(OTHER, pid), sig)
        with pytest.raises(gw.DisconnectedError, match=OTHER) as info:
            waiting.wait()
        assert info.value.outcome == "may have run" and isinstance(info.value, ConnectionError)
        with pytest.raises(gw.DisconnectedError):
            lost.wait()
        with pytest.raises(gw.RefLostError):
            ref.to_here()
        with pytest.raises(gw.DisconnectedError):
            gw.rpc_sync(OTHER, pid)


def test_calls_to_a_killed_worker_fail(job):
    ended = job(2, kill_other, code=None, run_options=("--on-failure", "keep"))
    assert "Traceback" not in ended.errors, ended.errors


class Held:
    def __init__(self, flag):
        self.flag = flag


_held = []


def hold(ref):
    _held.append(ref)


def killed_holder(rank):
    """Worker 1 holds a reference to an object of worker 0 and is killed: the object is released."""
    if rank == 1:
        gw.Future().wait()
    if rank == 0:
        gw.rpc_sync(OTHER, hold, (gw.RRef(Held(1)),))
        gc.collect()
        assert gw.owned_count() == 1
        lost = gw.member_lost([OTHER])
        os.kill(gw.rpc_sync(OTHER, pid), signal.SIGKILL)
        lost.exception()
        while gw.owned_count():
            continue


def test_references_of_a_killed_worker_are_released(job):
    ended = job(2, killed_holder, code=None, run_options=("--on-failure", "keep"))
    assert "Traceback" not in ended.errors, ended.errors


# ---- Signals ------------------------------------------------------------------------------------------------
_interrupting = []


def interrupt(to):
    """Interrupts the process |to|, which waits for this call, and returns after release."""
    _interrupting.append(gw.Future())
    os.kill(to, signal.SIGINT)
    return _interrupting[-1].wait()


def release():
    while _interrupting:
        _interrupting.pop().set_result(None)


def interrupted(rank):
    if rank != 0:
        return
    me = os.getpid()
    waits = (lambda: gw.rpc_sync(OTHER, interrupt, (me,)), lambda: gw.rpc_async(OTHER, interrupt, (me,)).wait(),
             lambda: gw.wait_any([gw.rpc_async(OTHER, interrupt, (me,)), gw.Future()]),
             lambda: (gw.rpc_async(OTHER, interrupt, (me,)), gw.recv(1)))
    for wait in waits:
        with pytest.raises(KeyboardInterrupt):
            wait()
    assert gw.rpc_sync(OTHER, pid) > 0
    gw.rpc_sync(OTHER, release)


def test_ctrl_c_ends_waits(job):
    job(2, interrupted)


def kick(to, number=signal.SIGINT):
    """Sends a signal to the process |to|, which waits for this reply."""
    os.kill(to, number)


def interrupted_by_each_reply(rank):
    """Each signal raises once, before the reply or after it."""
    count = 0
    for _ in range(100 if rank == 0 else 0):
        try:
            gw.rpc_sync(OTHER, kick, (os.getpid(),))
            while True:  # the signal arrives
                pass
        except KeyboardInterrupt:
            count += 1
    assert rank != 0 or count == 100 and gw.rpc_sync(OTHER, pid) != os.getpid()


def test_ctrl_c_that_meets_the_reply_is_not_lost(job):
    job(2, interrupted_by_each_reply)


@joins_itself
def leaves_in_a_handler():
    """A handler that runs during a call cannot leave; outside of calls it can."""
    gw.init()
    if gw.rank() == 0:
        signal.signal(signal.SIGUSR1, lambda *_: gw.leave())
        with pytest.raises(gw.WrongStateError, match="during a call"):
            gw.rpc_sync(OTHER, interrupt_by, (os.getpid(), signal.SIGUSR1))
        gw.rpc_sync(OTHER, release)
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(gw.WrongStateError):
            gw.rpc_sync(OTHER, pid)
    else:
        gw.shutdown()


def interrupt_by(to, number):
    """As interrupt, by another signal."""
    _interrupting.append(gw.Future())
    os.kill(to, number)
    return _interrupting[-1].wait()


def test_leave_in_the_handler_of_a_signal(job):
    job(2, leaves_in_a_handler)


@joins_itself
def joins_alone():
    print("joining", flush=True)
    try:
        gw.init(rank=0, world_size=2, init_method=f"file://{os.environ['MEET']}")
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def test_ctrl_c_ends_init(tmp_path):
    process = conftest.start(conftest.command(joins_alone), MEET=str(tmp_path / "meet"))
    assert process.stdout.readline() == "joining\n"
    process.send_signal(signal.SIGINT)
    ended = conftest.finish(process)
    assert "interrupted" in ended.output or "KeyboardInterrupt" in ended.errors


@joins_itself
def waits_in_shutdown():
    """Worker 1 interrupts worker 0 while that waits in shutdown, and ends only after this."""
    gw.init()
    if gw.rank() == 1:
        gw.rpc_sync(0, interrupt_main)
        gw.shutdown()
        return
    try:
        gw.shutdown()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def interrupt_main():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_shutdown(job):
    ended = job(2, waits_in_shutdown, code=None)
    assert "[0] interrupted" in ended.output, ended.errors


# ---- Ends without shutdown ------------------------------------------------------------------------------------
@joins_itself
def just_ends():
    gw.init()
    if gw.rank() == 0:
        atexit.register(print, "at exit", flush=True)
        assert gw.rpc_sync(OTHER, pid) != os.getpid()
    else:
        gw.shutdown()


def test_a_worker_that_ends_without_shutdown_leaves(job):
    ended = job(2, just_ends)
    assert ended.errors.count("ends without gradwire.shutdown()") == 1 and "at exit" in ended.output


@joins_itself
def raises():
    gw.init()
    if gw.rank() == 1:
        raise ValueError("no data")
    gw.rpc_sync(OTHER, never)


def test_a_worker_with_an_uncaught_exception_leaves(job):
    ended = job(2, raises, code=1)
    assert "[0] gradwire.errors.DisconnectedError" in ended.errors
    assert "[1] ValueError: no data" in ended.errors and "rank 1 (pid" in ended.errors


def wait_for_ever():
    with pytest.raises(gw.Error):
        gw.Future().wait()


@joins_itself
def exits():
    how = os.environ["HOW"]
    gw.init()
    gw.rpc_sync((gw.rank() + 1) % 2, pid)
    kept = [gw.RRef([1]), gw.Future(), gw.empty(10_000), gw.remote(OTHER, list)]
    future = gw.rpc_async(OTHER, pid)
    future.add_done_callback(lambda f: None)
    gw.barrier()
    if how == "sys.exit":
        sys.exit(0)
    if how == "os._exit":
        os._exit(0)
    if how == "leave":
        gw.leave()
    if how == "with":
        with gw.Job():
            gw.barrier()
    if how == "thread":  # a daemon thread waits while the interpreter ends
        threading.Thread(target=wait_for_ever, daemon=True).start()
        gw.shutdown()
    if how == "twice":
        gw.shutdown()
        gw.shutdown()
        with pytest.raises(gw.WrongStateError):
            gw.rpc_sync(OTHER, pid)
        with pytest.raises(gw.WrongStateError):
            kept[0].local_value()
        assert future.done()
    if how == "again":
        gw.shutdown()
        with pytest.raises(gw.Error):
            gw.init(rank=0, world_size=1, name="bad name")
        gw.init(rank=0, world_size=1, init_method=f"file://{os.environ['MEET']}{os.getpid()}")
        assert gw.rpc_sync(0, pid) == os.getpid()
        gw.shutdown()


@pytest.mark.parametrize("how", ["sys.exit", "os._exit", "leave", "with", "thread", "twice", "again"])
def test_all_ways_to_end_are_clean(job, tmp_path, how):
    ended = job(2, exits, variables={"HOW": how, "MEET": str(tmp_path / "meet")})
    assert "Fatal Python error" not in ended.errors and "Traceback" not in ended.errors, ended.errors


# ---- Functions that do not end -----------------------------------------------------------------------------------
_stuck = threading.Event()


def never_returns():
    _stuck.set()
    threading.Event().wait()


@joins_itself
def leaves_a_function_behind():
    gw.init()
    if gw.rank() == 0:
        _stuck.wait()
        with pytest.raises(gw.TimeoutError):
            gw.leave()
        print("left", flush=True)
        gw.init(rank=0, world_size=1, init_method="tcp://127.0.0.1:0")
        assert gw.rpc_sync(0, pid) == os.getpid()
        gw.shutdown()
    else:
        with pytest.raises(gw.DisconnectedError):
            gw.rpc_sync(0, never_returns, timeout=0)
        gw.shutdown()


def test_leave_does_not_wait_for_ever_for_a_function(job):
    """The library waits 30 seconds for it."""
    ended = job(2, leaves_a_function_behind)
    assert "[0] left" in ended.output, ended.errors
    assert "worker0 has left the job, but still runs 1 function that other workers have called" in ended.errors


_waiting = []


def waits_in_pool():
    """A function that waits when its worker is fenced."""
    _waiting.append(1)
    try:
        gw.Future().wait()
    finally:
        _waiting.pop()


@joins_itself
def fenced():
    """Worker 2 stops for longer than the others wait for it: its functions end with it."""
    gw.init(rank=int(os.environ["RANK"]), world_size=3, init_method=f"file://{os.environ['MEET']}")
    if gw.rank() == 2:
        with pytest.raises(gw.Error):
            gw.Future().wait()
        with pytest.raises(gw.FencedError):
            gw.shutdown()
        assert not _waiting
        print("drained", flush=True)
        return
    if gw.rank() == 0:
        calls = [gw.rpc_async(2, waits_in_pool) for _ in range(8)]
        while gw.rpc_sync(2, len, (_Waiting(),)) < 8:
            pass
        stopped = gw.rpc_sync(2, pid)
        lost = gw.member_lost([2])
        os.kill(stopped, signal.SIGSTOP)
        assert isinstance(lost.exception(), gw.DisconnectedError)
        os.kill(stopped, signal.SIGCONT)
        for call in calls:
            assert isinstance(call.exception(), gw.DisconnectedError)
    gw.shutdown()


class _Waiting:
    """On the worker that loads it: the functions that wait there."""

    def __reduce__(self):
        return _waiting_here, ()


def _waiting_here():
    return list(_waiting)


def test_a_fenced_worker_ends_its_functions(tmp_path):
    """Without a launcher, which would kill it."""
    workers = [conftest.start(conftest.command(fenced), MEET=str(tmp_path / "meet"), RANK=str(rank)) for rank in range(3)]
    ended = [conftest.finish(worker) for worker in workers]
    assert [e.code for e in ended] == [0, 0, 0], ended
    assert ended[2].output == "drained\n" and "still runs" not in ended[2].errors, ended[2].errors


# ---- Fork --------------------------------------------------------------------------------------------------------
def in_child(connection, ref, future):
    try:
        gw.rpc_sync(0, pid)
    except RuntimeError as error:
        connection.send(str(error))
    connection.send(future.done())
    del ref, future
    gc.collect()
    connection.send("end")


def forks(rank):
    ref, future, array = gw.RRef([1]), gw.rpc_async(0, pid), gw.empty(10_000)
    future.wait()
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=in_child, args=(there, ref, future))
    child.start()
    assert "forked" in here.recv() and here.recv() is True and here.recv() == "end"
    child.join()
    assert child.exitcode == 0
    assert ref.local_value() == [1] and array.sum() == 0
    subprocess.run(["true"], check=True)
    spawned = multiprocessing.get_context("spawn").Process(target=print, args=("spawned",))
    spawned.start()
    spawned.join()
    assert spawned.exitcode == 0
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
    assert gw.rpc_sync(0, pid) > 0


def test_a_forked_child_has_no_agent_and_ends_cleanly(job):
    ended = job(2, forks)
    assert "Fatal" not in ended.errors and "without gradwire.shutdown" not in ended.errors
