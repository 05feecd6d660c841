#!/usr/bin/python3
"""PyTorch's side of the operators' cases of gw-bench, in the same form: "case median_us min_us".

    bench/peers/torch_ops.py [--threads N] [CASE ...]
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F


def lstm_35x20x200_l2():
    lstm = torch.nn.LSTM(200, 200, 2)
    x = torch.randn(35, 20, 200, requires_grad=True)
    h = (torch.zeros(2, 20, 200), torch.zeros(2, 20, 200))
    d = torch.randn(35, 20, 200)

    def step():
        out, _ = lstm(x, h)
        out.backward(d)

    return step, [x, *lstm.parameters()], 30


def cross_entropy_700x10000():
    x = torch.randn(700, 10000, requires_grad=True)
    target = torch.randint(10000, (700,))
    return lambda: F.cross_entropy(x, target).backward(), [x], 20


def linear_700x200x10000():
    layer = torch.nn.Linear(200, 10000)
    x = torch.randn(700, 200, requires_grad=True)
    d = torch.randn(700, 10000)
    return lambda: layer(x).backward(d), [x, *layer.parameters()], 10


def embedding_10000x200_sparse():
    table = torch.nn.Embedding(10000, 200, sparse=True)
    at = torch.randint(10000, (35, 20))
    d = torch.randn(35, 20, 200)
    return lambda: table(at).backward(d), list(table.parameters()), 200


def embedding_10000x200():
    table = torch.nn.Embedding(10000, 200)
    at = torch.randint(10000, (35, 20))
    d = torch.randn(35, 20, 200)
    return lambda: table(at).backward(d), list(table.parameters()), 50


CASES = [lstm_35x20x200_l2, cross_entropy_700x10000, linear_700x200x10000,
         embedding_10000x200_sparse, embedding_10000x200]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch takes")
    p.add_argument("cases", nargs="*")
    args = p.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    for case in CASES:
        if args.cases and "op." + case.__name__ not in args.cases:
            continue
        step, parameters, rounds = case()
        took = []
        for i in range(rounds + 3):
            for x in parameters:
                x.grad = None
            start = time.perf_counter()
            step()
            if i >= 3:
                took.append((time.perf_counter() - start) * 1e6)
        print(f"torch{args.threads or ''}.op.{case.__name__} {statistics.median(took):.2f} {min(took):.2f}",
              flush=True)


if __name__ == "__main__":
    main()
