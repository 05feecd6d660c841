"""The backend gradwire of torch.distributed.rpc: joining, messages, threads, errors and ends."""
import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import time

import conftest
import gradwire as gw
import pytest
from worker import joins_itself

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
try:
    import gradwire.torch
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from gradwire.torch import GradwireRpcBackendOptions, meeting

HERE, OTHER = "worker0", "worker1"


def join(name="worker{rank}", world_size=None, **options):
    """Calls init_rpc as a rank of the launcher."""
    rank = int(os.environ["RANK"])
    rpc.init_rpc(name.format(rank=rank), rank=rank, world_size=world_size or int(os.environ["WORLD_SIZE"]),
                 backend=rpc.BackendType.GRADWIRE, rpc_backend_options=GradwireRpcBackendOptions(**options))
    return rank


def same(x):
    return x


# ---- Registration and options ------------------------------------------------------------------------------------
ORDERS = {"before": "from torch.distributed.rpc import BackendType\nimport gradwire.torch\n",
          "after": "import gradwire.torch\nfrom torch.distributed.rpc import BackendType\n"}


@pytest.mark.parametrize("order", ORDERS)
def test_members_of_the_enumeration_are_valid_in_both_orders_of_import(order):
    text = ORDERS[order] + """
import torch.distributed.rpc as rpc
from torch.distributed.rpc import backend_registry as registry
assert rpc.BackendType is BackendType is registry.BackendType
for name in ("TENSORPIPE", "GRADWIRE"):
    assert BackendType[name] is getattr(rpc.BackendType, name) and BackendType[name].name == name
    assert isinstance(BackendType[name], registry.BackendType)
assert type(registry.construct_rpc_backend_options(BackendType.GRADWIRE)).__name__ == "GradwireRpcBackendOptions"
registry.register_backend("OTHER", lambda *a, **k: None, lambda *a, **k: None)
assert {m.name for m in registry.BackendType} == {"TENSORPIPE", "GRADWIRE", "OTHER"}
"""
    ended = conftest.finish(conftest.start([sys.executable, "-c", text]))
    assert ended.code == 0, ended.errors


def test_options_for_other_devices_are_refused():
    for options in ({"device_maps": {OTHER: {0: 1}}}, {"devices": ["cuda:0"]}, {"num_worker_threads": 0}):
        with pytest.raises(ValueError):
            GradwireRpcBackendOptions(**options)
    with pytest.raises(TypeError):
        GradwireRpcBackendOptions(_nothing=1)
    made = rpc.backend_registry.construct_rpc_backend_options(rpc.BackendType.GRADWIRE, rpc_timeout=3,
                                                              _transports=["uv"], _channels=None)
    assert made.rpc_timeout == 3 and made.init_method == "env://"
    assert GradwireRpcBackendOptions(devices=["cpu"], device_maps={OTHER: {"cpu": "cpu"}}).num_worker_threads == 16


def test_a_module_for_another_version_of_pytorch_is_not_loaded(monkeypatch):
    monkeypatch.setattr(meeting.extension, "version", lambda: "9.9")
    with pytest.raises(ImportError, match=r"built for PyTorch [0-9.]+.*PyTorch 9\.9.*make python-torch"):
        meeting.extension.load()


# ---- Messages ----------------------------------------------------------------------------------------------------
def tensors():
    x = torch.arange(12.0).reshape(3, 4)
    yield from (x, x.t(), x[1:, ::2], torch.ones(()), torch.empty(0, 3), x > 3, x.to(torch.bfloat16), x.int())
    yield from (torch.tensor([1 + 2j, 3j]), torch.tensor([1 + 2j]).conj(), torch.ones(2).requires_grad_())
    yield torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)
    yield torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,))
    yield from (torch.arange(1 << 20), torch.arange(1 << 20)[5:9])


@joins_itself
def carries():
    if join() == 0:
        for x in tensors():
            y = rpc.rpc_sync(OTHER, same, (x,))
            assert y.dtype == x.dtype and y.shape == x.shape and y.requires_grad == x.requires_grad
            assert torch.equal(y.to_dense(), x.to_dense()) if x.is_sparse else y.equal(x)
        received = rpc.rpc_sync(OTHER, same, (torch.ones(1 << 20),))
        received += 1  # what is received belongs to the receiver
        assert received.sum() == 2 << 20
        assert rpc.rpc_sync(OTHER, same, ("x" * 10_000_000,)) == "x" * 10_000_000
        assert rpc.rpc_sync(HERE, same, (3,)) == 3  # to itself
        assert rpc.rpc_sync(OTHER, torch.add, (torch.ones(2), 1)).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="CPU tensors only"):
            rpc.rpc_sync(OTHER, same, (torch.ones(1, device="meta"),))
        with pytest.raises(RuntimeError, match="RPC ran for more than set timeout .500 ms.*worker1"):
            rpc.rpc_sync(OTHER, time.sleep, (2,), timeout=0.5)
        with pytest.raises(RuntimeError, match="could not find destination nothing"):
            rpc.get_worker_info("nothing")
        with pytest.raises(ValueError, match="no data"):
            rpc.rpc_sync(OTHER, fails)
    rpc.shutdown()


def fails():
    raise ValueError("no data")


def never():
    gw.Future().wait()


def test_messages_carry_all_tensors_of_the_cpu(job):
    job(2, carries)


@joins_itself
def sends_bad_messages():
    if join() == 0:
        description = b"\x80\x02]."  # an empty list
        for bad in ((), (1, 2), (1, 2, "x"), (2, 2, b"x", "y"), (2, 2, b"x", b"y", "z"), (1 << 40, 1, b"", b"")):
            with pytest.raises(gw.Error):
                gw.rpc_sync(OTHER, "torch.message", bad)
        for bad in ((0x102, 1, b"no pickle"), (0x7F, 1, b""), (0x102, 1, b"", b"\x80\x02" + b"X\xff\xff\xff\x7f"),
                    (0x102, 1, b"", description[:-1])):
            reply = gw.rpc_sync(OTHER, "torch.message", bad)
            assert reply[0] == 0x237, reply  # torch's message EXCEPTION
        assert rpc.rpc_sync(OTHER, same, (1,)) == 1
    rpc.shutdown()


def test_malformed_messages_fail_alone(job):
    job(2, sends_bad_messages)


# ---- Threads -----------------------------------------------------------------------------------------------------
def descend(depth):
    return depth and 1 + rpc.rpc_sync(f"worker{depth % 2}", descend, (depth - 1,))


@joins_itself
def nests():
    if join(num_worker_threads=1) == 0:
        assert rpc.rpc_sync(OTHER, descend, (40,)) == 40
        futures = [rpc.rpc_async(OTHER, descend, (3,)) for _ in range(64)]
        assert torch.futures.wait_all(futures) == [3] * 64
        ref = rpc.remote(OTHER, same, (torch.ones(2),))
        assert ref.rpc_sync().sum().item() == 2 and ref.to_here().tolist() == [1, 1]
    rpc.shutdown()


def test_nested_waits_need_no_fixed_number_of_threads(job):
    job(2, nests)


@joins_itself
def measures():
    if join() == 0:
        agent = rpc.api._get_current_rpc_agent()
        futures = [rpc.rpc_async(OTHER, same, (i,)) for i in range(3)]
        torch.futures.wait_all(futures)
        keys = {"agent.thread_pool_size", "agent.num_idle_threads", "agent.client_active_calls",
                "agent.server_active_calls", "agent.server_active_async_calls"}
        info = agent.get_debug_info()
        assert keys <= info.keys() and int(info["gradwire.calls_made"]) >= 3
        assert "agent.gil_average_wait_time_us" not in info
        rpc.enable_gil_profiling(True)
        rpc.rpc_sync(OTHER, same, (1,))
        assert "agent.gil_average_wait_time_us" in agent.get_debug_info()
    rpc.shutdown()


def test_metrics_have_the_keys_of_tensorpipe(job):
    job(2, measures)


# ---- One agent ---------------------------------------------------------------------------------------------------
@joins_itself
def uses_both():
    if os.environ["FIRST"] == "gradwire":
        gw.init()
    rank = join()
    assert gw.rank() == rank and [w.name for w in gw.workers()] == [HERE, OTHER]
    total = gw.all_reduce(torch.ones(2))
    assert total.tolist() == [2, 2]
    assert gw.rpc_sync(OTHER, same, (1,)) == rpc.rpc_sync(OTHER, same, (1,)) == 1
    rpc.shutdown()
    with pytest.raises(gw.WrongStateError):
        gw.rpc_sync(OTHER, same, (1,))


@pytest.mark.parametrize("first", ["gradwire", "torch"])
def test_a_process_has_one_agent(job, first):
    job(2, uses_both, variables={"FIRST": first})


@joins_itself
def disagrees():
    gw.init()
    with pytest.raises(RuntimeError, match="has joined as worker"):
        join("other{rank}")
    gw.shutdown()


def test_names_of_gradwire_and_torch_must_agree(job):
    job(2, disagrees)


# ---- Joining -----------------------------------------------------------------------------------------------------
@joins_itself
def hides_the_key():
    made = []
    original = meeting._key_line
    meeting._key_line = lambda: made.append(original()) or made[-1]
    store = os.environ["STORE"]
    rank = join(init_method=f"file://{store}")
    content = pathlib.Path(store).read_bytes()
    assert b"gradwire/job" in content or rank == 1
    assert len(made) == (rank == 0)
    for line in made:
        assert not any(word.encode() in content for word in line.split()[2:])
    rpc.rpc_sync(OTHER, same, (1,))
    rpc.shutdown()
    # The directory with the key is removed when rank 0 has joined.
    assert not list(pathlib.Path(os.environ["TMPDIR"]).glob("gradwire-*"))


@pytest.mark.parametrize("transport", ["", "tcp"])
def test_the_key_is_not_in_the_store(job, tmp_path, transport):
    (tmp_path / "tmp").mkdir()
    job(2, hides_the_key, variables={"STORE": str(tmp_path / "store"), "TMPDIR": str(tmp_path / "tmp"),
                                     "GW_TRANSPORT": transport})


@joins_itself
def uses_a_port():
    meeting._host = lambda: [os.environ["RANK"]]  # as on several hosts
    if join(key=os.environ["KEY"]) == 0:
        assert rpc.rpc_sync(OTHER, same, (1,)) == 1
        assert "key" in gw.stats()["protection"] or "there are none" in gw.stats()["protection"]
    rpc.shutdown()


def test_workers_of_several_hosts_meet_at_a_port_of_rank_0(job, tmp_path):
    key = tmp_path / "key"
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        subprocess.run([str(conftest.BUILD / "bin" / "gradwire"), "key"], stdout=file, check=True)
    job(2, uses_a_port, variables={"KEY": str(key)})


@joins_itself
def differs():
    how = os.environ["HOW"]
    rank = int(os.environ["RANK"])
    with pytest.raises(RuntimeError) as info:
        if how == "name":
            join("same")
        elif how == "size":
            join(world_size=2 + rank, init_method=f"file://{os.environ['STORE']}")
        else:
            meeting.extension.version = lambda: f"1.{13 + rank}"
            join()
    words = {"name": ["is not unique"], "size": ["world size", "2", "3"], "torch": ["PyTorch", "1.13", "1.14"]}
    assert all(word in str(info.value) for word in words[how]), info.value


@pytest.mark.parametrize("how", ["name", "size", "torch"])
def test_workers_that_differ_are_refused_with_a_sentence(job, tmp_path, how):
    job(2, differs, variables={"HOW": how, "STORE": str(tmp_path / "store")})


@joins_itself
def joins_alone():
    print("joining", flush=True)
    try:
        rpc.init_rpc(HERE, rank=0, world_size=2, backend=rpc.BackendType.GRADWIRE,
                     rpc_backend_options=GradwireRpcBackendOptions(init_method=f"file://{os.environ['STORE']}",
                                                                   join_timeout=float(os.environ["LIMIT"])))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    except RuntimeError as error:
        print(error, flush=True)


def test_a_worker_that_does_not_join_is_named(tmp_path):
    ended = conftest.finish(conftest.start(conftest.command(joins_alone), STORE=str(tmp_path / "store"), LIMIT="2"))
    assert "rank 1 has not joined" in ended.output, ended.output + ended.errors


def test_ctrl_c_ends_init(tmp_path):
    process = conftest.start(conftest.command(joins_alone), STORE=str(tmp_path / "store"), LIMIT="800")
    assert process.stdout.readline() == "joining\n"
    process.send_signal(signal.SIGINT)
    ended = conftest.finish(process)
    assert "interrupted" in ended.output or "KeyboardInterrupt" in ended.errors


# ---- Lost workers ------------------------------------------------------------------------------------------------
def pid():
    return os.getpid()


kept = []


def expect_lost(run):
    with pytest.raises(RuntimeError, match=OTHER):
        run()


@joins_itself
def loses_a_worker():
    """Worker 1 is killed or stopped under a call, and then all uses of it fail with its name."""
    rank = join(rpc_timeout=0)
    if rank == 1:
        gw.member_lost([HERE]).exception()
        os._exit(1)
    if rank == 2:
        expect_lost(rpc.shutdown)
        return
    ref = rpc.remote(OTHER, same, (torch.ones(2),))
    ref.to_here()
    waiting = rpc.rpc_async(OTHER, never)
    with dist_autograd.context() as context:
        loss = rpc.rpc_sync(OTHER, torch.mul, (torch.ones(2, requires_grad=True), 2)).sum()
        other = rpc.rpc_sync(OTHER, pid)
        os.kill(other, getattr(signal, os.environ["SIGNAL"]))
        expect_lost(waiting.wait)
        expect_lost(lambda: dist_autograd.backward(context, [loss]))
    expect_lost(lambda: rpc.rpc_sync(OTHER, pid))
    expect_lost(ref.to_here)
    expect_lost(lambda: rpc.remote(OTHER, pid).to_here())
    expect_lost(lambda: rpc.api._all_gather(1))
    expect_lost(rpc.shutdown)
    with contextlib.suppress(ProcessLookupError):  # one that was stopped still exists
        os.kill(other, signal.SIGKILL)


@pytest.mark.parametrize("sig", ["SIGKILL", "SIGSTOP"])
def test_uses_of_a_lost_worker_fail_with_its_name(job, sig):
    ended = job(3, loses_a_worker, code=None, run_options=("--on-failure", "keep"),
                variables={"SIGNAL": sig})
    assert "Traceback" not in ended.errors, ended.errors


def holds_reference_to_worker0():
    kept.append(rpc.remote(HERE, same, ([1],)))
    kept[-1].to_here()


@joins_itself
def loses_a_holder():
    if join() == 1:
        gw.member_lost([HERE]).exception()
        os._exit(1)
    rpc.rpc_sync(OTHER, holds_reference_to_worker0)
    assert rpc._rref_context_get_debug_info()["num_owner_rrefs"] == "1"
    os.kill(rpc.rpc_sync(OTHER, pid), signal.SIGKILL)
    while rpc._rref_context_get_debug_info()["num_owner_rrefs"] != "0":
        time.sleep(0.01)
    rpc.shutdown(graceful=False)


def test_references_of_a_killed_worker_are_released(job):
    ended = job(2, loses_a_holder, code=None, run_options=("--on-failure", "keep"))
    assert "Traceback" not in ended.errors, ended.errors


# ---- Ends --------------------------------------------------------------------------------------------------------
@joins_itself
def ends():
    how = os.environ["HOW"]
    rank = join()
    rpc.rpc_sync(f"worker{1 - rank}", same, (torch.ones(2),))
    kept.extend([rpc.RRef([1]), rpc.remote(OTHER, same, (1,)), rpc.rpc_async(OTHER, same, (1,))])
    gw.barrier()
    if how == "shutdown":
        rpc.shutdown()
    elif how == "local":
        rpc.shutdown(graceful=False)
    elif how == "raise" and rank == 1:
        raise ValueError("no data")
    elif how == "again":
        rpc.shutdown()
        kept.clear()
        gc.collect()
        join(init_method=f"file://{os.environ['STORE']}")
        assert rpc.rpc_sync(OTHER, same, (2,)) == 2
        rpc.shutdown()


@pytest.mark.parametrize("how", ["shutdown", "local", "nothing", "raise", "again"])
def test_all_ways_to_end_are_clean(job, tmp_path, how):
    ended = job(2, ends, code=None if how == "raise" else 0,
                variables={"HOW": how, "STORE": str(tmp_path / "store")})
    assert "Fatal" not in ended.errors and "terminate" not in ended.errors, ended.errors
    assert ("Traceback" in ended.errors) == (how == "raise"), ended.errors
    assert ("ends without rpc.shutdown()" in ended.errors) == (how in ("nothing", "raise")), ended.errors


def interrupt_main():
    os.kill(os.getpid(), signal.SIGINT)


@joins_itself
def waits_in_shutdown():
    """Worker 1 interrupts worker 0 while that waits in shutdown for a call that it has made."""
    if join() == 1:
        rpc.rpc_sync(HERE, interrupt_main)
        rpc.shutdown(graceful=False)
        return
    try:
        rpc.api._get_current_rpc_agent().join(shutdown=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    rpc.shutdown(graceful=False)


def test_ctrl_c_ends_shutdown(job):
    ended = job(2, waits_in_shutdown, code=None)
    assert "[0] interrupted" in ended.output, ended.errors


# ---- Unchanged programs ------------------------------------------------------------------------------------------
PROGRAM = """
import os, torch, torch.distributed.rpc as rpc
def f(x): return x + 1
rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2,
             rpc_backend_options=rpc.TensorPipeRpcBackendOptions(num_worker_threads=4))
if rank == 0:
    print(type(rpc.api._get_current_rpc_agent()).__name__, rpc.rpc_sync("worker1", f, (torch.ones(1),)).item())
rpc.shutdown()
"""


def test_unchanged_programs_run_with_the_backend(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = conftest.finish(conftest.start(
        conftest.launcher(2) + [sys.executable, "-m", "gradwire.torch", str(tmp_path / "program.py")]))
    assert ended.code == 0 and "[0] GradwireAgent 2.0" in ended.output, ended.output + ended.errors
