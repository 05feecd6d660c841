#!/usr/bin/env python3
"""Steps of PyTorch's DistributedDataParallel over gloo, of its sharded optimizer, and of its program ddp_rpc, as bench/ddp.c and
bench/ddp_rpc.c make them: prints "case median_us min_us".

    python3 bench/peers/torch_ddp.py [case...]

A case is measured if its name begins with one of those given: ddp.step_tiny_n2. A sample is the time that the slowest member takes
from a barrier on. PyTorch computes with one thread. zero.train_* prints as zero.resident_* how many MB the fullest process holds behind
a step beyond what it held before it had a model.
"""
import os
import random
import sys
import tempfile
import time
import traceback

# Layers, width, batch, samples.
CHAINS = {"ddp.step_tiny": (2, 16, 8, 400), "ddp.step_4MB": (4, 512, 8, 60), "ddp.step_100MB": (25, 1024, 8, 10),
          "zero.step_100MB": (25, 1024, 1, 10), "zero.train_plain_100MB": (25, 1024, 8, 10), "zero.train_1_100MB": (25, 1024, 8, 10)}
WARM = 5
DDP_RPC = "app.ddp_rpc.step"
EMBEDDINGS, FEATURES, CLASSES, STEPS = 100, 16, 8, 300


def chain(torch, layers, width):
    modules = []
    for i in range(layers):
        modules += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def print_slowest(torch, dist, case, times, group=None):
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group=group)
    if dist.get_rank() == 0:
        print(f"{case} {slowest.median().item():.2f} {slowest.min().item():.2f}", flush=True)


def resident_mb():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def time_steps(torch, dist, name):
    layers, width, batch, samples = CHAINS[name]
    before = resident_mb()
    model = chain(torch, layers, width)
    x, y, times = torch.rand(batch, width), torch.rand(batch, width), []
    is_alone = name.startswith("zero.step")  # the optimizer, without the passes
    if not is_alone:
        model = torch.nn.parallel.DistributedDataParallel(model)
    if name.startswith(("zero.step", "zero.train_1")):
        from torch.distributed.optim import ZeroRedundancyOptimizer
        opt = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)
    elif name.startswith("zero"):
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(samples + WARM):
        opt.zero_grad()
        if not is_alone:
            dist.barrier()
            start = time.perf_counter()
        torch.nn.functional.mse_loss(model(x), y).backward()
        if is_alone:
            dist.barrier()
            start = time.perf_counter()
        opt.step()
        if i >= WARM:
            times.append((time.perf_counter() - start) * 1e6)
    if name.startswith("zero.train"):
        print_slowest(torch, dist, f"{name.replace('train', 'resident')}_n{dist.get_world_size()}", [resident_mb() - before])
    print_slowest(torch, dist, f"{name}_n{dist.get_world_size()}", times)


def work(rank, members, folder, cases):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=members)
    for name in cases:
        time_steps(torch, dist, name)
    dist.barrier()


# ---- The program ddp_rpc ----


def draw_batch(torch):
    indices, offsets, target = [], [], []
    count = random.randint(20, 50)
    while len(indices) < count:
        offsets.append(len(indices))
        target.append(random.randrange(CLASSES))
        bag = min(random.randint(1, 10), count - len(indices))
        indices += [random.randrange(EMBEDDINGS) for _ in range(bag)]
    return torch.tensor(indices), torch.tensor(offsets), torch.tensor(target)


def train(rank, table):
    import torch
    import torch.distributed as dist
    import torch.distributed.autograd as dist_autograd
    from torch.distributed.optim import DistributedOptimizer
    from torch.distributed.rpc import RRef
    torch.set_num_threads(1)
    fc = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(FEATURES, CLASSES))
    parameters = table.remote_parameters() + [RRef(p) for p in fc.parameters()]
    opt = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.05)
    times = []
    for i in range(STEPS + WARM):
        indices, offsets, target = draw_batch(torch)
        start = time.perf_counter()
        with dist_autograd.context() as context:
            loss = torch.nn.functional.cross_entropy(fc(table.forward(indices, offsets)), target)
            dist_autograd.backward(context, [loss])
            opt.step(context)
        if i >= WARM:
            times.append((time.perf_counter() - start) * 1e6)
    print_slowest(torch, dist, DDP_RPC, times)


def work_ddp_rpc(rank, members, folder, cases):
    import torch
    import torch.distributed as dist
    import torch.distributed.rpc as rpc
    from torch.distributed.nn.api.remote_module import RemoteModule
    torch.set_num_threads(1)
    names = ["trainer0", "trainer1", "master", "ps"]
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/rpc", rpc_timeout=600)
    if rank < 2:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    rpc.init_rpc(names[rank], rank=rank, world_size=4, rpc_backend_options=options)
    if rank == 2:
        table = RemoteModule("ps", torch.nn.EmbeddingBag, args=(EMBEDDINGS, FEATURES), kwargs={"mode": "sum"})
        for future in [rpc.rpc_async(names[i], train, args=(i, table), timeout=0) for i in range(2)]:
            future.wait()
    rpc.shutdown()


def run(body, members, cases):
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(members):
            child = os.fork()
            if child == 0:
                try:
                    body(rank, members, folder, cases)
                    os._exit(0)
                except Exception:
                    traceback.print_exc()
                finally:
                    os._exit(1)
            children.append(child)
        return any([os.waitpid(child, 0)[1] for child in children])


def main():
    wanted, failed = sys.argv[1:], False
    for members in (2, 4):
        for name in CHAINS:  # each in processes of its own
            if not wanted or any(f"{name}_n{members}".startswith(w) for w in wanted):
                failed |= run(work, members, [name])
    if not wanted or any(DDP_RPC.startswith(w) for w in wanted):
        failed |= run(work_ddp_rpc, 4, [])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
