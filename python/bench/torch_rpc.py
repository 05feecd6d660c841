"""Times of torch.distributed.rpc between two workers, over one backend: medians in microseconds.

    for i in 1 2 3; do for backend in gradwire tensorpipe; do
        gradwire run -n 2 -- python3 python/bench/torch_rpc.py $backend
    done; done

Prints "backend case median p10 count". null: a call of an empty function; many: 64 of them at once; add: torch.add of
two numbers; rref: remote and to_here; echo: 4 MB there and back; backward: forward and backward through the other one.
"""
import os
import sys

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from measure import measure

OTHER = "worker1"


def empty():
    return None


def same(x):
    return x


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
        measure(f"{sys.argv[1]} null", lambda: rpc.rpc_sync(OTHER, empty), 5000)
        measure(f"{sys.argv[1]} many", many, 200)
        measure(f"{sys.argv[1]} add", lambda: rpc.rpc_sync(OTHER, torch.add, (two, two)), 5000)
        measure(f"{sys.argv[1]} rref", lambda: rpc.remote(OTHER, same, (1,)).to_here(), 2000)
        measure(f"{sys.argv[1]} echo", lambda: rpc.rpc_sync(OTHER, same, (big,)), 500)
        measure(f"{sys.argv[1]} backward", lambda: backward(weight), 1000)
    rpc.shutdown()


if __name__ == "__main__":
    main()
