"""Operators under torch.autocast("cpu", torch.bfloat16), given f32 and bf16."""

import torch
import torch.nn.functional as F

from operator_cases import Recorder
from words import Ints

f32, bf16, i64 = torch.float32, torch.bfloat16, torch.int64


def under_autocast(function):
    def run(*args):
        with torch.autocast("cpu", bf16):
            return function(*args)

    return run


def record_products(r, dtype):
    def case(name, function, *args):
        r.case(name, under_autocast(function), *args)

    case("matmul", torch.matmul, r.real(2, 3, dtype=dtype), r.real(3, 4))
    case("matmul", torch.matmul, r.real(2, 3), r.real(2, 3, 4, dtype=dtype))
    case("linear", F.linear, r.real(2, 3, dtype=dtype), r.real(4, 3), r.real(4))
    case("linear", lambda x, w, b: F.linear(x, w), r.real(2, 3, dtype=dtype), r.real(4, 3), None)
    ones, nones = Ints([1]), Ints([0])
    case("conv1d", F.conv1d, r.real(2, 3, 5, dtype=dtype), r.real(4, 3, 2), r.real(4), ones, nones, ones, 1)
    ones, nones = Ints([1, 1]), Ints([0, 0])
    case("conv2d", F.conv2d, r.real(1, 2, 4, 4, dtype=dtype), r.real(3, 2, 2, 2), r.real(3), ones, nones, ones, 1)


def record_losses(r, dtype):
    def case(name, function, *args):
        r.case(name, under_autocast(function), *args)

    def pair():
        return r.real(2, 3, dtype=dtype), r.real(2, 3)

    classes = r.ints(2, low=0, high=3)
    case("nll", F.nll_loss, r.real(2, 3, dtype=dtype), classes)
    case("cross_entropy", F.cross_entropy, r.real(2, 3, dtype=dtype), classes)
    case("mse", F.mse_loss, *pair())
    case("bce_with_logits", F.binary_cross_entropy_with_logits, r.real(2, 3, dtype=dtype), r.real(2, 3, low=0, high=1))
    case("smooth_l1", F.smooth_l1_loss, *pair())
    case("l1", F.l1_loss, *pair())
    case("kl_div", F.kl_div, r.real(2, 3, dtype=dtype, low=-3, high=-1), r.real(2, 3, low=0.125, high=1))


def record_others(r, dtype):
    def case(name, function, *args):
        r.case(name, under_autocast(function), *args)

    def x(low=-2.0):
        return r.real(2, 3, low=low, dtype=dtype)

    case("prod", lambda x, d: x.prod(d), x(), 1)
    case("exp", torch.exp, x())
    case("log", torch.log, x(low=0.5))
    case("rsqrt", torch.rsqrt, x(low=0.5))
    case("pow", torch.pow, x(low=0.5), 2.5)
    case("softmax", lambda x, d: x.softmax(d), x(), 1)
    case("log_softmax", lambda x, d: x.log_softmax(d), x(), 1)
    case("sum", lambda x: x.sum(), x())
    case("logsumexp", lambda x, d: x.logsumexp(d), x(), Ints([1]))
    case("norm", lambda x, p: torch.linalg.vector_norm(x, p), x(), 2.0)
    case("cumsum", lambda x, d: x.cumsum(d), x(), 1)
    case("layer_norm", lambda x, n: F.layer_norm(x, n), x(), Ints([3]))
    case("add", torch.add, x(), r.real(2, 3))
    case("mul", torch.mul, x(), x())
    case("tanh", torch.tanh, x())
    case("relu", torch.relu, x())
    case("cat", lambda xs, d: torch.cat(xs, d), [x(), r.real(1, 3)], 0)


def record_autocast(out):
    r = Recorder(out)
    for dtype in (f32, bf16):
        record_products(r, dtype)
        record_losses(r, dtype)
        record_others(r, dtype)
