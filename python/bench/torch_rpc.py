"""Times of torch.distributed.rpc between two workers, over one backend: medians in microseconds.

    for i in 1 2 3; do for backend in gradwire tensorpipe; do
        gradwire run -n 2 -- python3 python/bench/torch_rpc.py $backend
    done; done

Prints "backend case median p10 count". null: a call of an empty function; many: 64 of them at once; add: torch.add of
two numbers; rref: remote and to_here; echo: 4 MB there and back; backward: forward and backward through the other one.
"""
import os
import sys
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

OTHER = "worker1"
BUDGET_S = 3


def empty():
    return None


def same(x):
    return x


def measure(name, run, count):
    for _ in range(20):
        run()
    times, end = [], time.perf_counter() + BUDGET_S
    while len(times) < count and time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e6)
    times.sort()
    print(f"{sys.argv[1]} {name} {times[len(times) // 2]:.1f} {times[len(times) // 10]:.1f} {len(times)}", flush=True)


def many():
    torch.futures.wait_all([rpc.rpc_async(OTHER, empty) for _ in range(64)])


def backward(weight):
    with dist_autograd.context() as context:
        loss = rpc.rpc_sync(OTHER, torch.mul, (weight, weight)).sum()
        dist_autograd.backward(context, [loss])


def main():
    backend = sys.argv[1]
    if backend == "gradwire":
        import gradwire.torch  # noqa: F401
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, backend=rpc.BackendType[backend.upper()])
    if rank == 0:
        two, big, weight = torch.ones(2), torch.ones(1 << 20), torch.ones(10, requires_grad=True)
        measure("null", lambda: rpc.rpc_sync(OTHER, empty), 5000)
        measure("many", many, 200)
        measure("add", lambda: rpc.rpc_sync(OTHER, torch.add, (two, two)), 5000)
        measure("rref", lambda: rpc.remote(OTHER, same, (1,)).to_here(), 2000)
        measure("echo", lambda: rpc.rpc_sync(OTHER, same, (big,)), 500)
        measure("backward", lambda: backward(weight), 1000)
    rpc.shutdown()


if __name__ == "__main__":
    main()
