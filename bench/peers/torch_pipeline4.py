#!/usr/bin/env python3
"""The chain of rpc.pipeline4 on PyTorch's RPC: rd = f4(f3(ra, rb), rb) over four workers and a caller.

Functions take references and call to_here(), as PyTorch's users write it. Prints "case median_us min_us", as gw-bench does:

    bench/compare 5 'build/bin/gw-bench rpc.pipeline4' 'python3 bench/peers/torch_pipeline4.py'

Needs a Python whose torch has distributed RPC (Debian: python3-torch and the system's python3). gradwire does not.
"""
import os
import socket
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

CASES = [("rpc.pipeline4", 2, 300), ("rpc.pipeline4_1MB", 1 << 18, 100)]


def ones(n):
    return torch.ones(n)


def add(a, b):
    return a.to_here() + b.to_here()


def chain(n):
    a = rpc.remote("w1", ones, args=(n,))
    b = rpc.remote("w2", ones, args=(n,))
    c = rpc.remote("w3", add, args=(a, b))
    d = rpc.remote("w4", add, args=(c, b))
    return d.to_here()


def measure(name, n, rounds):
    times = []
    for i in range(rounds + rounds // 10):
        start = time.perf_counter()
        out = chain(n)
        times.append(time.perf_counter() - start)
        assert out[0] == 3
    times = sorted(times[rounds // 10:])
    print("torch.%s %.2f %.2f" % (name, times[len(times) // 2] * 1e6, times[0] * 1e6), flush=True)


def work(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    rpc.init_rpc("w%d" % rank, rank=rank, world_size=world_size)
    if rank == 0:
        for case in CASES:
            measure(*case)
    rpc.shutdown()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(work, args=(5, port), nprocs=5)
