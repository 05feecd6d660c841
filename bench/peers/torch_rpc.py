#!/usr/bin/env python3
"""Calls with large tensors over PyTorch RPC, as bench/bulk.c makes them: prints "case median_us min_us".

    python3 bench/peers/torch_rpc.py [--tuned] [--calls N] [case...]
    python3 bench/peers/torch_rpc.py --rank R --at tcp://HOST:PORT --interface eth0 [--tuned] [--calls N] [case...]

With --rank it is one of two processes on two hosts, which use PyTorch's own choice there: sockets alone, several for large
tensors. Hosts that are namespaces of one machine have its shared memory in common, and would not otherwise.
--tuned keeps freed memory in the process and backs it by huge pages, which PyTorch does not do by itself.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296",
         "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_TOP_PAD_": "67108864"}
CASES = {"rpc.identity_4MB": ("identity", 1 << 20), "rpc.identity_400MB": ("identity", 100 << 20),
         "rpc.ops200_4MB": ("ops200", 1 << 20), "rpc.ops200_400MB": ("ops200", 100 << 20)}


def identity(x):
    return x


def ops200(x):
    for _ in range(200):
        x = x + 1
    return x


def work(rank, init_method, interface, cases, calls):
    import torch
    import torch.distributed.rpc as rpc
    torch.set_num_threads(1)
    by = {"_transports": ["uv"], "_channels": ["mpt_uv", "basic"]} if interface else {}
    options = rpc.TensorPipeRpcBackendOptions(init_method=init_method, rpc_timeout=600, **by)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for case in cases:
            name, floats = CASES[case]
            x, times = torch.ones(floats), []
            for i in range(calls + 1):
                start = time.perf_counter()
                rpc.rpc_sync("w1", globals()[name], args=(x,))
                if i > 0:
                    times.append((time.perf_counter() - start) * 1e6)
            print(f"{case} {statistics.median(times):.2f} {min(times):.2f}", flush=True)
    rpc.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--at")
    parser.add_argument("--interface")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if options.tuned and not all(os.environ.get(k) == v for k, v in TUNED.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **TUNED})
    cases = options.cases or list(CASES)
    if options.rank is not None:
        os.environ.update({"TP_SOCKET_IFNAME": options.interface, "GLOO_SOCKET_IFNAME": options.interface})
        work(options.rank, options.at, options.interface, cases, options.calls)
        return
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        work(1 if child == 0 else 0, f"file://{folder}/store", None, cases, options.calls)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
