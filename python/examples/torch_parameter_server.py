"""The tutorial of PyTorch on parameter servers with distributed autograd, over either backend of torch.distributed.rpc.

    gradwire run -n 3 -- python3 python/examples/torch_parameter_server.py --backend gradwire

Worker 0 has one layer of a network, the trainers have the other one. Each trainer learns y = sin(3 x0) + sin(3 x1): the
forward pass goes through the server, backward follows it, and DistributedOptimizer steps both layers.
"""
import argparse
import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.optim import DistributedOptimizer

HIDDEN = 64


class Layer(nn.Module):
    """The layer of the server: each trainer has a reference to one of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(2, HIDDEN)

    def forward(self, x):
        return torch.tanh(self.linear(x))

    def parameter_rrefs(self):
        return [rpc.RRef(p) for p in self.parameters()]


def train(name, steps):
    torch.manual_seed(2)
    first, last = rpc.remote("ps", Layer), nn.Linear(HIDDEN, 1)
    parameters = first.rpc_sync().parameter_rrefs() + [rpc.RRef(p) for p in last.parameters()]
    optimizer = DistributedOptimizer(torch.optim.Adam, parameters, lr=0.02)
    for _ in range(steps):
        x = torch.rand(64, 2) * 2 - 1
        y = torch.sin(3 * x).sum(1, keepdim=True)
        with dist_autograd.context() as context:
            loss = nn.functional.mse_loss(last(first.rpc_sync().forward(x)), y)
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
    print(f"{name}: loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["gradwire", "tensorpipe"], default="gradwire")
    parser.add_argument("--steps", type=int, default=300)
    o = parser.parse_args()
    if o.backend == "gradwire":
        import gradwire.torch  # noqa: F401
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    name = f"trainer{rank}" if rank else "ps"
    rpc.init_rpc(name, rank=rank, world_size=world_size, backend=rpc.BackendType[o.backend.upper()])
    if rank:
        train(name, o.steps)
    rpc.shutdown()


if __name__ == "__main__":
    main()
