"""Splitting, writing by index, sorting, triangles; and losses with weights."""

import torch
import torch.nn.functional as F

from operator_cases import REDUCTIONS, Recorder
from words import Ints

f32, f64, i64 = torch.float32, torch.float64, torch.int64


def record_splits(r):
    r.case("split", torch.split, r.real(5, 3), 2, 0)
    r.case("split", torch.split, r.real(2, 4), 2, -1)
    r.case("split", torch.split, r.ints(4), 9, 0)
    r.case("split_with_sizes", torch.split, r.real(5, 2), Ints([2, 0, 3]), 0)
    r.case("split_with_sizes", torch.split, r.real(2, 4, dtype=f64), Ints([1, 2, 1]), 1)
    r.case("chunk", torch.chunk, r.real(7, 2), 4, 0)
    r.case("chunk", torch.chunk, r.real(2, 6), 4, 1)
    r.case("chunk", torch.chunk, r.real(3), 9, 0)
    r.case("chunk", torch.chunk, r.real(2, 0), 3, -1)


def record_scatters(r):
    across, down = torch.tensor([[2, 0], [1, 2]]), torch.tensor([[3, 0], [1, 1], [0, 2]])
    r.case("scatter", torch.scatter, r.real(2, 3), 1, across, r.real(2, 2))
    r.case("scatter", torch.scatter, r.real(4, 3), 0, down, r.real(3, 2))
    r.case("scatter", torch.scatter, r.real(2, 3), -1, across, 2.5)
    r.case("scatter", torch.scatter, r.ints(2, 3), 1, across, 7)
    r.case("scatter", torch.scatter, r.real(3), 0, torch.tensor([], dtype=i64), r.real(0))


def record_orders(r):
    nan = float("nan")
    some = torch.tensor([[3.0, nan, -0.0, 1.0, 0.0, -2.0], [1.0, 1.0, -float("inf"), nan, nan, 1.0]])

    def sort(x, dim, descending):
        return torch.sort(x, dim=dim, descending=descending, stable=True)

    for descending in (False, True):
        r.case("sort", sort, r.real(3, 5), -1, descending)
        r.case("sort", sort, r.real(4, 2, 3, dtype=f64), 0, descending)
        r.case("sort", sort, r.ints(2, 9, low=-3, high=3), 1, descending)
        r.case("sort", sort, some, -1, descending)
        r.case("sort", sort, r.real(4).to(torch.float16), 0, descending)
    r.case("sort", sort, r.real(), 0, False)
    for largest in (True, False):
        r.case("topk", torch.topk, r.real(3, 7), 2, -1, largest)
        r.case("topk", torch.topk, r.real(9, 2, dtype=f64), 4, 0, largest)
        r.case("topk", torch.topk, torch.tensor([4, -2, 9, 0, 7, 1]), 6, 0, largest)
    r.case("topk", torch.topk, some[0], 2, 0, True)
    r.case("topk", torch.topk, r.real(2, 3), 0, 1, True)


def record_triangles(r):
    for name, function in (("tril", torch.tril), ("triu", torch.triu)):
        for diagonal in (0, 1, -2, 9, -9):
            r.case(name, function, r.real(3, 4), diagonal)
        r.case(name, function, r.real(2, 4, 3, dtype=f64), -1)
        r.case(name, function, r.ints(3, 3), 0)
    r.case("nonzero", torch.nonzero, r.ints(3, 4, low=0, high=2))
    r.case("nonzero", torch.nonzero, r.ints(2, 3, 2, low=0, high=2).to(torch.bool))
    r.case("nonzero", torch.nonzero, torch.tensor([0.0, -0.0, float("nan"), 2.0]))
    r.case("nonzero", torch.nonzero, torch.tensor(3))
    r.case("nonzero", torch.nonzero, torch.tensor(0))


def record_losses(r):
    def weightless(x):
        """Weights have no gradient."""
        return None if x is None else x.detach()

    def nll(x, target, reduction, ignore_index, weight):
        return F.nll_loss(x, target, weight=weightless(weight), reduction=REDUCTIONS[reduction],
                          ignore_index=ignore_index)

    def cross_entropy(x, target, reduction, ignore_index, smoothing, weight):
        return F.cross_entropy(x, target, weight=weightless(weight),
                               reduction=REDUCTIONS[reduction], ignore_index=ignore_index,
                               label_smoothing=smoothing)

    def l1(x, target, reduction):
        return F.l1_loss(x, target, reduction=REDUCTIONS[reduction])

    def kl_div(x, target, reduction, log_target):
        return F.kl_div(x, target, reduction={**REDUCTIONS, 3: "batchmean"}[reduction],
                        log_target=log_target)

    target, shaped = torch.tensor([2, 0, 1, 2]), torch.tensor([[[0, 2], [1, 0]], [[2, 2], [0, 1]]])
    for reduction in REDUCTIONS:
        for ignored in (-100, 2):
            r.case("nll", nll, r.real(4, 3), target, reduction, ignored, r.real(3, low=0.25))
            for smoothing in (0.0, 0.3):
                r.case("cross_entropy", cross_entropy, r.real(4, 3), target, reduction, ignored,
                       smoothing, r.real(3, low=0.25))
        r.case("nll", nll, r.real(2, 3, 2, 2), shaped, reduction, 1, r.real(3, low=0.25))
        r.case("cross_entropy", cross_entropy, r.real(2, 3, 2, 2), shaped, reduction, 1, 0.1,
               r.real(3, low=0.25))
        r.case("cross_entropy", cross_entropy, r.real(3), torch.tensor(1), reduction, -100, 0.1,
               r.real(3, low=0.25))
        r.case("l1", l1, r.real(2, 3), r.real(2, 3), reduction)
    r.case("l1", l1, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]), 1)
    for reduction in (0, 1, 2, 3):
        r.case("kl_div", kl_div, r.real(2, 3), r.real(2, 3, low=0.125), reduction, False)
        r.case("kl_div", kl_div, r.real(2, 3), r.real(2, 3), reduction, True)
    r.case("kl_div", kl_div, r.real(3, 1), r.real(2, low=0.125), 1, False)


def cases(r):
    record_splits(r)
    record_scatters(r)
    record_orders(r)
    record_triangles(r)
    record_losses(r)


def record_picking(out):
    cases(Recorder(out))
