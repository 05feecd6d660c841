"""Twenty steps of replicas, by Gloo: DistributedDataParallel, its hooks, averagers, ZeRO, joins."""

import multiprocessing
import os
import tempfile
from collections import OrderedDict
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

import words

STEPS = 20
SHOWN = (1, 5, STEPS)
BATCHES = 4  # of each member, one after the other and again
BATCH = 4  # of each member, each step
IN, HIDDEN, OUT, WORDS, BAG = 8, 12, 4, 10, 3


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(IN, HIDDEN)
        self.b = torch.nn.Linear(HIDDEN, OUT)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class One(torch.nn.Module):
    """One parameter: what a bucket is like does not depend on the order of several."""

    def __init__(self):
        super().__init__()
        self.b = torch.nn.Linear(IN, OUT, bias=False)

    def forward(self, x):
        return self.b(torch.tanh(x))


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Conv2d(1, 3, 2)
        self.b = torch.nn.Linear(9, OUT)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x[:, :8].reshape(-1, 1, 2, 4))).flatten(1))


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(IN, HIDDEN)
        self.n = torch.nn.BatchNorm1d(HIDDEN)
        self.b = torch.nn.Linear(HIDDEN, OUT)

    def forward(self, x):
        return self.b(torch.tanh(self.n(self.a(x))))


class Bag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e = torch.nn.EmbeddingBag(WORDS, HIDDEN, sparse=True)
        self.b = torch.nn.Linear(HIDDEN, OUT)

    def forward(self, x):
        return self.b(torch.tanh(self.e(x)))


class Unused(torch.nn.Module):
    """|b| is used by all, |c| by rank 0 in every second step, |d| by none."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(IN, HIDDEN)
        self.b = torch.nn.Linear(HIDDEN, OUT)
        self.c = torch.nn.Linear(HIDDEN, OUT)
        self.d = torch.nn.Linear(HIDDEN, OUT)
        self.takes_c = False

    def forward(self, x):
        h = torch.tanh(self.a(x))
        return self.b(h) + self.c(h) if self.takes_c else self.b(h)


MODELS = {"conv": Conv, "norm": Norm, "bag": Bag, "unused": Unused, "batched": One}
CASES = ("mlp", "conv", "norm", "bag", "no_sync", "unused", "zero", "f16", "power_sgd", "periodic", "hierarchical",
         "autocast", "join", "batched")


def make(case, numbers):
    model = MODELS.get(case, Mlp)()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(numbers.real(*p.shape, low=-0.5, high=0.5))
    return model


def data(case, members, numbers):
    """Of all members: BATCHES, members, BATCH."""
    shape = (BATCHES, members, BATCH)
    x = numbers.ints(*shape, BAG, high=WORDS) if case == "bag" else numbers.real(*shape, IN, low=-1, high=1)
    return x, numbers.real(*shape, OUT, low=-1, high=1)


def inputs_of(case, rank):
    """With join, later ranks have more."""
    return 5 + 4 * rank if case == "join" else STEPS


def train_step(case, model, net, opt, x, y, step):
    opt.zero_grad(set_to_none=True)
    if case == "no_sync":
        with net.no_sync():
            mse_loss(net(x[:2]), y[:2]).backward()
        mse_loss(net(x[2:]), y[2:]).backward()
    elif case == "autocast":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(x)
        mse_loss(out.float(), y).backward()
    else:
        model.takes_c = dist.get_rank() == 0 and step % 2 == 0
        mse_loss(net(x), y).backward()
    opt.step()


def blocks(group_size, group=None):
    """dist.new_subgroups, which wants CUDA."""
    ranks = range(dist.get_world_size(group))
    groups = [dist.new_group(list(ranks[i : i + group_size])) for i in ranks[::group_size]]
    return groups[dist.get_rank() // group_size], groups


def drawn(into, numbers):
    """torch.randn, for the hook: |into| gets what it gives."""

    def randn(*sizes, **_):
        q = numbers.real(*sizes)
        into.append(q.flatten().clone())
        return q

    return randn


orthogonalize = powerSGD_hook._orthogonalize


def orthogonalize_any(matrices, epsilon=0):
    """1.13 takes a batch of matrices there, and its batched hook gives it a single one."""
    orthogonalize(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)


def work(rank, members, case, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=members)
    numbers = words.Numbers(1 + CASES.index(case) * 10 + members)
    model = make(case, numbers)
    start = [p.detach().clone() for p in model.parameters()]
    x, y = data(case, members, numbers)
    alone = case in ("periodic", "hierarchical")
    net = model if alone else DistributedDataParallel(model, find_unused_parameters=case == "unused")
    if case == "zero":
        opt = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    elif case == "bag":
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
    else:
        opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if case == "periodic":
        opt = PostLocalSGDOptimizer(opt, PeriodicModelAverager(period=4, warmup_steps=3))
    if case == "hierarchical":
        with mock.patch.object(dist, "new_subgroups", blocks):
            averager = HierarchicalModelAverager(OrderedDict([(2, members // 2), (4, members)]), warmup_steps=3)
        opt = PostLocalSGDOptimizer(opt, averager)
    queries = []
    if case == "f16":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if case == "power_sgd":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    if case == "batched":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.batched_powerSGD_hook)

    shown, grads = [], None
    powerSGD_hook._orthogonalize = orthogonalize_any
    with mock.patch.object(powerSGD_hook.torch, "randn", drawn(queries, words.Numbers(77))):
        if case == "join":
            with Join([net]):
                for step in range(inputs_of(case, rank)):
                    train_step(case, model, net, opt, x[step % BATCHES, rank], y[step % BATCHES, rank], step)
            shown.append([p.detach().clone() for p in model.parameters()])
        for step in range(STEPS if case != "join" else 0):
            train_step(case, model, net, opt, x[step % BATCHES, rank], y[step % BATCHES, rank], step)
            if step == 0:
                grads = [None if p.grad is None else p.grad.to_dense().clone() for p in model.parameters()]
            if step + 1 in SHOWN:
                shown.append([p.detach().clone() for p in model.parameters()])
    torch.save((rank, start, x, y, grads, shown, queries, list(model.buffers())), f"{path}.{rank}")
    dist.barrier()


def play(members, case):
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "meet")
        workers = [context.Process(target=work, args=(r, members, case, path)) for r in range(members)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        return [torch.load(f"{path}.{r}") for r in range(members)]


def record_replicas(out):
    for members in (2, 4):
        for case in CASES:
            if case == "hierarchical" and members == 2:
                continue
            found = play(members, case)
            _, start, x, y, grads, _, queries, _ = found[0]
            out.write(f"\ncase {case} {members}\nx {words.tensor(x)}\ny {words.tensor(y)}\n")
            for q in queries:
                out.write(f"q {words.tensor(q)}\n")
            for p in start:
                out.write(f"param {words.tensor(p)}\n")
            for g in grads or []:
                out.write(f"grad {words.value(g)}\n")
            # Members differ between averages.
            for rank, *_, shown, _, buffers in found if case in ("periodic", "hierarchical") else found[:1]:
                for step, params in zip((inputs_of(case, members - 1),) if case == "join" else SHOWN, shown):
                    out.write(f"after {rank} {step}\n")
                    for p in params:
                        out.write(f"param {words.tensor(p)}\n")
                for b in buffers:
                    out.write(f"buffer {words.value(b)}\n")
