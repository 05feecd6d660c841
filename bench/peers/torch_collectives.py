#!/usr/bin/env python3
"""Collectives of PyTorch over gloo, as bench/collective.c makes them: prints "case median_us min_us".

    python3 bench/peers/torch_collectives.py [--bind] [case...]

With --bind each process has a processor, in turns where there are fewer. A case is measured if its name begins with one of
those given: collective.all_reduce_4KB_n2. A sample is the time that the slowest member takes from a barrier on; of a send,
there and back. Gloo has no reduce_scatter in PyTorch 1.13: there it is an all_reduce, of which each member keeps its rows.
"""
import os
import sys
import tempfile
import time

SIZES = {"4KB": (1 << 10, 400), "64KB": (1 << 14, 200), "1MB": (1 << 18, 60), "25MB": (25 << 18, 10),
         "100MB": (25 << 20, 5)}
OPERATIONS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")


def cases(members):
    """Name, operation, numbers, samples of each case."""
    yield f"collective.barrier_n{members}", "barrier", 1, 400
    if members == 2:
        yield "collective.send_8B_n2", "send", 2, 1000
    for operation in OPERATIONS:
        for size, (numbers, samples) in SIZES.items():
            yield f"collective.{operation}_{size}_n{members}", operation, numbers, samples


def echo(dist, x):
    if dist.get_rank() == 0:
        dist.send(x, 1)
    dist.recv(x, 1 - dist.get_rank())
    if dist.get_rank() == 1:
        dist.send(x, 0)


def operation_of(dist, torch, name, numbers, members):
    x = torch.zeros(numbers)
    if name == "send":
        return lambda: echo(dist, x)
    if name == "barrier":
        return dist.barrier
    if name in ("all_reduce", "reduce_scatter"):
        return lambda: dist.all_reduce(x)
    if name == "broadcast":
        return lambda: dist.broadcast(x, 0)
    if name == "all_gather":
        parts = [torch.zeros(numbers) for _ in range(members)]
        return lambda: dist.all_gather(parts, x)
    out = torch.zeros(numbers)
    return lambda: dist.all_to_all_single(out, x)


def work(rank, members, file, wanted):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=members)
    for case, name, numbers, samples in cases(members):
        if wanted and not any(case.startswith(w) for w in wanted):
            continue
        run, times = operation_of(dist, torch, name, numbers, members), []
        for i in range(samples + 2):
            if name != "send":
                dist.barrier()
            start = time.perf_counter()
            run()
            if i >= 2:
                times.append((time.perf_counter() - start) * 1e6)
        slowest = torch.tensor(times, dtype=torch.float64)
        if name != "send":
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
        if rank == 0:
            print(f"{case} {slowest.median().item():.2f} {slowest.min().item():.2f}", flush=True)
    dist.barrier()


def main():
    binds = sys.argv[1:2] == ["--bind"]
    wanted, failed = sys.argv[1 + binds:], 0
    processors = sorted(os.sched_getaffinity(0))
    for members in (2, 4):
        if wanted and not any(case[0].startswith(w) for w in wanted for case in cases(members)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            children = []
            for rank in range(members):
                child = os.fork()
                if child == 0:
                    if binds:
                        os.sched_setaffinity(0, [processors[rank % len(processors)]])
                    try:
                        work(rank, members, folder + "/store", wanted)
                        os._exit(0)
                    finally:
                        os._exit(1)
                children.append(child)
            for child in children:
                failed |= os.waitpid(child, 0)[1]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
