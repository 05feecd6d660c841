"""Forward values and gradients of arithmetic that came later, and of reductions over several dims."""

import torch

import words
from operator_cases import Recorder
from words import Ints

f32, f64, i64 = torch.float32, torch.float64, torch.int64
INF, NAN = float("inf"), float("nan")


def record_steps(r):
    steps = torch.tensor([-2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.5, 2.5, 3e9])
    for name in ("floor", "ceil", "round", "trunc"):
        function = getattr(torch, name)
        r.case(name, function, steps)
        r.case(name, function, r.real(2, 3, dtype=f64))
        r.case(name, function, r.ints(4, low=-3))
    for name in ("sin", "cos"):
        function = getattr(torch, name)
        r.case(name, function, r.real(2, 3))
        r.case(name, function, r.real(5, low=-100, high=100, dtype=f64))
        r.case(name, function, r.ints(4))


def record_remainder(r):
    signs = torch.tensor([5.5, -5.5, 5.5, -5.5, 6.0, -6.0]), torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0, 3.0])
    r.case("remainder", torch.remainder, *signs)
    r.case("remainder", torch.remainder, r.real(2, 1, 3), r.real(4, 1, low=0.25))
    r.case("remainder", torch.remainder, r.real(3, dtype=f64), 0.75)
    r.case("remainder", torch.remainder, r.ints(8, low=-9, high=9), 4)
    r.case("remainder", torch.remainder, r.ints(8, low=-9, high=9), r.ints(8, low=-4, high=0))
    r.case("remainder", lambda a, b: torch.remainder(torch.tensor(a), b), 7, r.ints(4, low=1))


def record_truth(r):
    odd = torch.tensor([0.0, -1.5, INF, -INF, NAN])
    for name in ("isfinite", "isnan", "isinf", "logical_not"):
        function = getattr(torch, name)
        r.case(name, function, odd)
        r.case(name, function, odd.to(torch.float16))
        r.case(name, function, r.ints(2, 3))
    for name in ("logical_and", "logical_or", "logical_xor"):
        function = getattr(torch, name)
        r.case(name, function, odd, torch.tensor([[0.0], [1.0]]))
        r.case(name, function, r.ints(6), r.ints(6).to(torch.bool))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        function = getattr(torch, name)
        r.case(name, function, r.ints(8, low=-99, high=99), r.ints(2, 1, low=-99, high=99))
        r.case(name, function, r.ints(8, high=256, dtype=torch.uint8), r.ints(8, low=-9, dtype=torch.int8))
        r.case(name, function, r.ints(8, low=-99, high=99, dtype=torch.int32), 12)
        r.case(name, function, r.ints(4, high=2).to(torch.bool), torch.tensor([True, False, True, False]))
    r.case("bitwise_not", torch.bitwise_not, r.ints(8, low=-99, high=99))
    r.case("bitwise_not", torch.bitwise_not, r.ints(8, high=256, dtype=torch.uint8))
    r.case("bitwise_not", torch.bitwise_not, torch.tensor([True, False]))
    mask = torch.tensor([[True, False, True], [False, False, True]])
    r.case("masked_fill", torch.masked_fill, r.real(2, 3), mask, 0.5)
    r.case("masked_fill", torch.masked_fill, r.real(2, 3), mask[0], -INF)
    r.case("masked_fill", torch.masked_fill, r.real(3), mask, r.real())
    r.case("masked_fill", torch.masked_fill, r.ints(2, 3), mask, 7)


def over(function, *whole):
    """|function| of everything, or over dims; |whole| is what it then takes for them."""

    def run(x, dims=None, keep=None):
        if dims is None:
            return function(x, *whole)
        return function(x, tuple(dims) if type(dims) is Ints else dims, keep)

    return run


def record_sums(r):
    functions = {
        "sum": over(torch.sum),
        "mean": over(torch.mean),
        "var": over(lambda x, dims, keep: torch.var(x, dims, True, keep)),
        "std": over(lambda x, dims, keep: torch.std(x, dims, True, keep)),
        "amax": over(torch.amax),
        "amin": over(torch.amin),
        "logsumexp": over(torch.logsumexp),
    }
    for name, function in functions.items():
        for dims in (Ints([0, 1]), Ints([2, 0]), Ints([-1, 1]), Ints([0, 1, 2])):
            r.case(name, function, r.real(2, 3, 4), dims, False)
        r.case(name, function, r.real(2, 3, 2, 3), Ints([1, 3]), True)
        r.case(name, function, r.real(2, 3, dtype=f64), Ints([-1]), True)
    ties = torch.tensor([[1.0, 3.0, 3.0], [3.0, 2.0, 1.0]])
    for name in ("amax", "amin"):
        r.case(name, functions[name], ties)
        r.case(name, functions[name], ties, Ints([0, 1]), False)
        r.case(name, functions[name], r.ints(2, 3), Ints([0]), False)
    ends = torch.tensor([[1000.0, 999.0, -1000.0], [-INF, 0.0, 1.0]])
    r.case("logsumexp", functions["logsumexp"], ends, 1, False)


def record_products(r):
    prod = over(torch.prod)
    for dim, keep in ((0, False), (1, True), (-1, False)):
        r.case("prod", prod, r.real(2, 3, 4), dim, keep)
    r.case("prod", prod, r.real(2, 3))
    zeros = torch.tensor([[1.5, 0.0, 2.0], [0.0, 3.0, 0.0], [2.0, -1.0, 4.0]])
    r.case("prod", prod, zeros, 1, False)
    r.case("prod", prod, torch.tensor([2.0, 0.0, 3.0]))
    r.case("prod", prod, r.ints(2, 3, low=-3), 1, False)
    r.case("prod", prod, r.ints(2, 3, high=2).to(torch.bool))


def record_norms(r):
    def norm(x, p, dims=None, keep=False):
        return torch.norm(x, p, tuple(dims) if type(dims) is Ints else dims, keep)

    for p in (2, 1, 0, 0.5, 1.5, 3, -1, INF, -INF):
        r.case("norm", norm, r.real(2, 3, 4), p, Ints([2, 0]), False)
        r.case("norm", norm, r.real(2, 3), p)
        r.case("norm", norm, r.real(2, 3), p, 1, True)
    zeros = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-2.0, 2.0]])
    for p in (2, 1, 3, INF):
        r.case("norm", norm, zeros, p, 1, False)


def record_any(r):
    for name in ("any", "all"):
        function = getattr(torch, name)
        r.case(name, lambda x, dim=None, keep=None: function(x) if dim is None else function(x, dim, keep),
               torch.tensor([[0.0, NAN], [0.0, 0.0], [1.0, -2.0]]), 1, False)
        r.case(name, lambda x: function(x), r.ints(2, 3, high=2))
        r.case(name, lambda x, dim, keep: function(x, dim, keep), r.ints(3, 2, high=2).to(torch.bool), 0, True)
        r.case(name, lambda x, dim, keep: function(x, dim, keep), torch.zeros(0, 2), 0, False)


def record_sure(r):
    """What chance does not decide."""
    r.case("randint", lambda d, low, high, n: torch.randint(low, high, n, dtype=d), f32, 3, 4, Ints([2, 3]))
    r.case("randint", lambda d, low, high, n: torch.randint(low, high, n, dtype=d), i64, -1, 0, Ints([]))
    r.case("randperm", torch.randperm, 1)
    r.case("randperm", torch.randperm, 0)


def cases(r):
    record_sure(r)
    record_steps(r)
    record_remainder(r)
    record_truth(r)
    record_sums(r)
    record_products(r)
    record_norms(r)
    record_any(r)


def record_numbers(out):
    cases(Recorder(out))


def record_normal(out):
    """torch.distributions.Normal: densities and entropies, and their gradients."""
    r = Recorder(out)
    for loc, scale, value in (((), (), ()), ((3,), (3,), (3,)), ((2, 3), (3,), (2, 1)), ((2, 1), (3,), (4, 2, 3))):
        loc, scale = r.real(*loc).requires_grad_(), r.real(*scale, low=0.25).requires_grad_()
        value = r.real(*value)
        n = torch.distributions.Normal(loc, scale)
        out.write(f"\ncase {words.tensor(loc)}\n{words.tensor(scale)}\nvalue {words.tensor(value)}\n")
        for name, y in (("log_prob", n.log_prob(value)), ("entropy", n.entropy())):
            d_y = r.real(*y.shape, low=-1, high=1)
            grads = torch.autograd.grad(y, (loc, scale), d_y, retain_graph=True, allow_unused=True)
            grads = [torch.zeros_like(x) if d is None else d for x, d in zip((loc, scale), grads)]
            out.write(f"{name} {words.tensor(y)}\nd {words.tensor(d_y)}\n")
            out.write(f"d_loc {words.tensor(grads[0])}\nd_scale {words.tensor(grads[1])}\n")
        out.write("end\n")
