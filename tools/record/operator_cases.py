"""Forward values and gradients of every operator."""

import torch
import torch.nn.functional as F

import words
from words import Ints

f32, f64, i64 = torch.float32, torch.float64, torch.int64


class Recorder:
    def __init__(self, out):
        self.out = out
        self.numbers = words.Numbers(3)
        self.real = self.numbers.real
        self.ints = self.numbers.ints

    def case(self, name, function, *args):
        """Runs |function| on |args|, which are in the order of the operator's row."""
        inputs = []

        def leaf(x):
            if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
                x = x.detach().clone().requires_grad_()
            if isinstance(x, torch.Tensor):
                inputs.append(x)
            return x

        used = [[leaf(x) for x in a] if type(a) is list else leaf(a) for a in args]
        result = function(*used)
        self.out.write(f"\ncase {name}\n")
        for a in used:
            self.out.write(f"arg {words.value(a)}\n")
        results = [result] if isinstance(result, torch.Tensor) else list(result)
        for y in results:
            self.out.write(f"out {words.tensor(y)}\n")
        if results[0].requires_grad:
            self.gradients([y for y in results if y.requires_grad], inputs)
        self.out.write("end\n")

    def gradients(self, results, inputs):
        d_results = [self.real(*y.shape, low=-1, high=1, dtype=y.dtype) for y in results]
        for d in d_results:
            self.out.write(f"d_out {words.tensor(d)}\n")
        wanted = [x for x in inputs if x.requires_grad]
        grads = iter(torch.autograd.grad(results, wanted, d_results, allow_unused=True))
        for i, x in enumerate(inputs):
            grad = next(grads) if x.requires_grad else None
            if grad is not None:
                self.out.write(f"d_in {i} {words.tensor(grad)}\n")


def record_creation(r):
    r.case("zeros", lambda d, n: torch.zeros(n, dtype=d), f32, Ints([2, 3]))
    r.case("ones", lambda d, n: torch.ones(n, dtype=d), i64, Ints([]))
    r.case("full", lambda d, v, n: torch.full(n, v, dtype=d), f64, 2.5, Ints([2]))
    r.case("full", lambda d, v, n: torch.full(n, v, dtype=d), torch.bool, True, Ints([2]))
    for a in ((f32, 0.0, 2.0, 0.3), (i64, 1, 10, 3), (f64, 5.0, 0.0, -1.5), (i64, 3, 3, 1)):
        r.case("arange", lambda d, low, high, by: torch.arange(low, high, by, dtype=d), *a)


def record_views(r):
    x = r.real(2, 3, 4)
    r.case("reshape", lambda x, n: x.reshape(n), x, Ints([4, 6]))
    r.case("reshape", lambda x, n: x.reshape(n), x, Ints([-1, 2]))
    r.case("view", lambda x, n: x.view(n), x, Ints([6, -1]))
    r.case("expand", lambda x, n: x.expand(n), r.real(3, 1), Ints([2, 3, 2]))
    r.case("expand", lambda x, n: x.expand(n), r.real(1, 3), Ints([4, -1]))
    r.case("permute", lambda x, d: x.permute(d), x, Ints([2, 0, -2]))
    r.case("transpose", torch.transpose, x, 0, -1)
    r.case("slice", lambda x, dim, a, b, c: x[:, a:b:c], x, 1, 0, 3, 2)
    r.case("slice", lambda x, dim, a, b, c: x[..., a:b:c], x, -1, -3, 100, 1)
    r.case("select", torch.select, x, 1, -1)
    r.case("squeeze", torch.squeeze, r.real(2, 1, 3), 1)
    r.case("squeeze", torch.squeeze, r.real(2, 3), 0)
    r.case("unsqueeze", torch.unsqueeze, r.real(2, 3), -1)
    r.case("contiguous", lambda x: x.contiguous(), x)
    r.case("clone", torch.clone, x)
    r.case("to_dtype", lambda x, d: x.to(d), r.real(2, 3), f64)
    r.case("to_dtype", lambda x, d: x.to(d), r.real(6), i64)
    r.case("to_dtype", lambda x, d: x.to(d), r.ints(6), f32)
    r.case("cat", torch.cat, [r.real(2, 1), r.real(2, 3), r.real(2, 2)], 1)
    r.case("cat", torch.cat, [r.real(1, 2), r.real(3, 2)], 0)
    r.case("stack", torch.stack, [r.real(2, 3), r.real(2, 3)], 1)
    r.case("stack", torch.stack, [r.real(2), r.real(2), r.real(2)], -1)


def record_arithmetic(r):
    for name in ("add", "sub", "mul", "div", "maximum", "minimum"):
        function = getattr(torch, name)
        low = 0.5 if name == "div" else -2
        r.case(name, function, r.real(2, 3), r.real(2, 3, low=low))
        r.case(name, function, r.real(2, 1, 3), r.real(4, 1, low=low))
        r.case(name, function, r.real(3, dtype=f64), r.real(2, 3, low=low))
        if name not in ("maximum", "minimum"):
            r.case(name, function, r.real(2, 3), 2.5)
            r.case(name, lambda a, b: function(torch.tensor(a), b), 1.5, r.real(2, 3, low=low))
            r.case(name, function, r.real(3), 2)
            r.case(name, function, r.ints(3, low=-5, high=5), r.ints(3, low=1, high=4))
    r.case("maximum", torch.maximum, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]))
    r.case("minimum", torch.minimum, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]))
    r.case("pow", torch.pow, r.real(2, 3, low=0.25), 2.5)
    r.case("pow", torch.pow, r.real(2, 3), 2)
    r.case("pow", torch.pow, r.real(2, 3), 3.0)
    r.case("pow", torch.pow, r.real(2, 3, low=0.25), r.real(3))
    r.case("pow", torch.pow, 2.0, r.real(2, 3))
    r.case("pow", torch.pow, torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0.0, 2.0, 0.0]))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        function = getattr(torch, name)
        r.case(name, function, r.ints(2, 4), r.ints(4))
        r.case(name, function, r.real(2, 3), 0.25)
        r.case(name, function, r.ints(6, dtype=torch.int32), r.ints(6).to(f32))
    yes = torch.tensor([[True, False, True], [False, False, True]])
    r.case("where", torch.where, yes, r.real(2, 3), r.real(2, 3))
    r.case("where", torch.where, yes, r.real(3), r.real(2, 1))
    r.case("where", lambda c, a, b: torch.where(c, a, torch.tensor(b)), yes, r.real(2, 3), 0.5)


def record_unary(r):
    any_sign = ["neg", "abs", "exp", "tanh", "sigmoid", "relu"]
    for name in any_sign + ["log", "sqrt", "rsqrt"]:
        low = -2 if name in any_sign else 0.0625
        function = getattr(torch, name)
        r.case(name, function, r.real(2, 3, low=low))
        r.case(name, function, r.real(5, low=low, high=40, dtype=f64))
        if name != "relu":
            r.case(name, function, r.ints(4, low=1, high=5))
    edges = torch.tensor([-100.0, -20.0, -1.0, 0.0, 1.0, 20.0, 80.0])
    for name in ("exp", "tanh", "sigmoid", "relu", "abs"):
        r.case(name, getattr(torch, name), edges)
    for name, function in (("gelu", F.gelu), ("silu", F.silu)):
        r.case(name, function, r.real(2, 3))
        r.case(name, function, edges)
        r.case(name, function, r.real(4, dtype=f64))
    r.case("leaky_relu", F.leaky_relu, r.real(2, 3), 0.1)
    r.case("leaky_relu", F.leaky_relu, edges, 0.01)
    r.case("clamp", torch.clamp, r.real(3, 4), -0.5, 1.0)
    r.case("clamp", torch.clamp, torch.tensor([-1.0, -0.5, 0.0, 1.0, 2.0]), -0.5, 1.0)


def record_products(r):
    for a, b in (
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 4)),
        ((2, 2, 3), (3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 1, 2, 3), (2, 3, 2)),
    ):
        r.case("matmul", torch.matmul, r.real(*a), r.real(*b))
    r.case("matmul", torch.matmul, r.real(3, 2, dtype=f64), r.real(2, 3, dtype=f64))
    r.case("linear", F.linear, r.real(2, 3), r.real(4, 3), r.real(4))
    r.case("linear", F.linear, r.real(2, 3), r.real(4, 3), None)
    r.case("linear", F.linear, r.real(3), r.real(4, 3), r.real(4))
    r.case("linear", F.linear, r.real(2, 2, 3), r.real(4, 3), r.real(4))


def record_reductions(r):
    def along(function):
        def run(x, dim=None, keep=None):
            return function(x) if dim is None else function(x, dim, keep)

        return run

    def values(function):
        def run(x, dim=None, keep=None):
            return function(x) if dim is None else function(x, dim, keep).values

        return run

    def indices(function):
        def run(x, dim=None, keep=None):
            return function(x) if dim is None else function(x, dim, keep)

        return run

    functions = {
        "sum": along(torch.sum),
        "mean": along(torch.mean),
        "var": along(lambda x, *a: torch.var(x, *a) if not a else torch.var(x, a[0], True, a[1])),
        "std": along(lambda x, *a: torch.std(x, *a) if not a else torch.std(x, a[0], True, a[1])),
        "max": values(torch.max),
        "min": values(torch.min),
        "argmax": indices(torch.argmax),
        "argmin": indices(torch.argmin),
    }
    for name, function in functions.items():
        r.case(name, function, r.real(2, 3))
        r.case(name, function, r.real(2, 3, 4), 1, False)
        r.case(name, function, r.real(2, 3), -1, True)
        r.case(name, function, r.real(2, 3, dtype=f64), 0, False)
    r.case("sum", functions["sum"], r.ints(2, 3))
    r.case("sum", functions["sum"], r.ints(2, 3, high=2).to(torch.bool), 1, False)
    ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    for name in ("max", "min", "argmax", "argmin"):
        r.case(name, functions[name], r.ints(2, 3, high=100), 1, False)
    for name in ("max", "min"):
        r.case(name, functions[name], ties)  # shared among equals
        r.case(name, functions[name], torch.tensor([[1.0, 3.0, 2.0], [5.0, 2.0, 1.0]]), 1, True)
    r.case("cumsum", torch.cumsum, r.real(2, 3), 1)
    r.case("cumsum", torch.cumsum, r.real(2, 3, 2), -2)
    r.case("cumsum", torch.cumsum, r.ints(5), 0)


REDUCTIONS = {0: "mean", 1: "sum", 2: "none"}


def record_losses(r):
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        r.case(name, function, r.real(2, 3), 1)
        r.case(name, function, r.real(2, 3, 2), -2)
        r.case(name, function, torch.tensor([[1000.0, 999.0, -1000.0]]), -1)
        r.case(name, function, r.real(3, dtype=f64), 0)

    def nll(x, target, reduction, ignore_index):
        return F.nll_loss(x, target, reduction=REDUCTIONS[reduction], ignore_index=ignore_index)

    def cross_entropy(x, target, reduction, ignore_index, smoothing):
        return F.cross_entropy(x, target, reduction=REDUCTIONS[reduction],
                               ignore_index=ignore_index, label_smoothing=smoothing)

    def mse(x, target, reduction):
        return F.mse_loss(x, target, reduction=REDUCTIONS[reduction])

    def bce(x, target, reduction):
        return F.binary_cross_entropy_with_logits(x, target, reduction=REDUCTIONS[reduction])

    def smooth_l1(x, target, reduction, beta):
        return F.smooth_l1_loss(x, target, reduction=REDUCTIONS[reduction], beta=beta)

    for reduction in REDUCTIONS:
        target = torch.tensor([2, 0, 1, 2])
        r.case("nll", nll, r.real(4, 3), target, reduction, -100)
        r.case("nll", nll, r.real(4, 3), target, reduction, 2)
        for smoothing in (0.0, 0.1):
            r.case("cross_entropy", cross_entropy, r.real(4, 3), target, reduction, -100, smoothing)
            r.case("cross_entropy", cross_entropy, r.real(4, 3), target, reduction, 0, smoothing)
        r.case("mse", mse, r.real(2, 3), r.real(2, 3), reduction)
        r.case("bce_with_logits", bce, r.real(2, 3, low=-30, high=30),
               r.real(2, 3, low=0, high=1), reduction)
        r.case("smooth_l1", smooth_l1, r.real(3, 4), r.real(3, 4), reduction, 1.0)
        r.case("smooth_l1", smooth_l1, r.real(3, 4), r.real(3, 4), reduction, 0.5)


def record_layers(r):
    weight = r.real(5, 2)
    r.case("embedding", lambda w, i: F.embedding(i, w), weight, torch.tensor([1, 4, 1, 0]))
    r.case("embedding", lambda w, i: F.embedding(i, w), weight, torch.tensor([[1, 4], [3, 3]]))

    def layer_norm(x, shape, weight, bias, eps):
        return F.layer_norm(x, shape, weight, bias, eps)

    r.case("layer_norm", layer_norm, r.real(3, 4), Ints([4]), r.real(4), r.real(4), 1e-5)
    r.case("layer_norm", layer_norm, r.real(2, 2, 3), Ints([2, 3]), r.real(2, 3), None, 1e-3)
    r.case("layer_norm", layer_norm, r.real(3, 4), Ints([4]), None, None, 1e-5)
    r.case("one_hot", F.one_hot, torch.tensor([[0, 2], [1, 2]]), 4)
    for p in (0.0, 1.0):  # what chance does not decide
        r.case("dropout", F.dropout, r.real(2, 3), p, True)
    r.case("dropout", F.dropout, r.real(2, 3), 0.5, False)
    index = torch.tensor([[0, 2, 1], [1, 0, 0]])
    r.case("gather", torch.gather, r.real(3, 3), 0, index)
    r.case("gather", torch.gather, r.real(2, 3), 1, index)
    r.case("gather", torch.gather, r.real(2, 3), -1, torch.tensor([[2], [2]]))
    r.case("scatter_add", torch.scatter_add, r.real(3, 3), 0, index, r.real(2, 3))
    r.case("scatter_add", torch.scatter_add, r.real(2, 3), 1, index, r.real(2, 3))
    r.case("index_select", torch.index_select, r.real(3, 2), 0, torch.tensor([2, 0, 2]))
    r.case("index_select", torch.index_select, r.real(2, 3), -1, torch.tensor([1, 1]))
    sure = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    r.case("multinomial", torch.multinomial, sure, 2, True)
    r.case("bernoulli", torch.bernoulli, torch.tensor([0.0, 1.0, 1.0]))


def record_comparisons(r):
    def truth(f):
        return lambda *args: torch.tensor(f(*args))

    x, near = torch.tensor([1.0, 1000.0]), torch.tensor([1.0, 1000.005])
    r.case("equal", truth(torch.equal), x, x.clone())
    r.case("equal", truth(torch.equal), x, near)
    r.case("equal", truth(torch.equal), x, torch.tensor([[1.0, 1000.0]]))
    r.case("allclose", truth(torch.allclose), x, near, 1e-5, 1e-8)
    r.case("allclose", truth(torch.allclose), x, near, 1e-6, 1e-8)
    r.case("allclose", truth(torch.allclose), torch.ones(2, 2), torch.ones(2), 1e-5, 1e-8)
    odd = torch.tensor([float("inf"), float("nan")])
    r.case("allclose", truth(torch.allclose), odd[:1], odd[:1], 1e-5, 1e-8)
    r.case("allclose", truth(torch.allclose), odd[1:], odd[1:], 1e-5, 1e-8)


def record_convolutions(r):
    def conv(function):
        return lambda x, w, b, stride, padding, dilation, groups: function(
            x, w, b, tuple(stride), tuple(padding), tuple(dilation), groups)

    one, two = conv(F.conv1d), conv(F.conv2d)
    r.case("conv1d", one, r.real(2, 3, 8), r.real(4, 3, 3), r.real(4), Ints([1]), Ints([0]),
           Ints([1]), 1)
    r.case("conv1d", one, r.real(2, 4, 9), r.real(6, 2, 3), None, Ints([2]), Ints([3]), Ints([2]),
           2)
    r.case("conv1d", one, r.real(3, 5), r.real(2, 3, 1), r.real(2), Ints([1]), Ints([0]),
           Ints([1]), 1)
    r.case("conv1d", one, r.real(1, 3, 5), r.real(3, 1, 2), r.real(3), Ints([3]), Ints([1]),
           Ints([1]), 3)
    r.case("conv2d", two, r.real(2, 3, 5, 6), r.real(4, 3, 3, 2), r.real(4), Ints([1, 1]),
           Ints([0, 0]), Ints([1, 1]), 1)
    r.case("conv2d", two, r.real(2, 2, 7, 5), r.real(3, 2, 3, 3), None, Ints([2, 1]), Ints([1, 2]),
           Ints([1, 2]), 1)
    r.case("conv2d", two, r.real(1, 4, 5, 5), r.real(8, 1, 3, 3), r.real(8), Ints([2, 2]),
           Ints([1, 1]), Ints([1, 1]), 4)
    r.case("conv2d", two, r.real(2, 4, 3, 3), r.real(2, 2, 1, 1), r.real(2), Ints([1, 1]),
           Ints([0, 0]), Ints([1, 1]), 2)
    r.case("conv2d", two, r.real(2, 4, 4), r.real(3, 2, 2, 2), r.real(3), Ints([3, 2]),
           Ints([2, 0]), Ints([1, 1]), 1)
    r.case("conv2d", two, r.real(1, 1, 1, 4), r.real(1, 1, 3, 3), None, Ints([1, 1]),
           Ints([1, 1]), Ints([1, 1]), 1)


def record_pools(r):
    def maximum(function):
        return lambda x, k, s, p, d, ceil: function(x, tuple(k), tuple(s), tuple(p), tuple(d), ceil)

    one, two = maximum(F.max_pool1d), maximum(F.max_pool2d)
    r.case("max_pool1d", one, r.real(2, 3, 7), Ints([2]), Ints([2]), Ints([0]), Ints([1]), False)
    r.case("max_pool1d", one, r.real(3, 8), Ints([3]), Ints([2]), Ints([1]), Ints([1]), True)
    r.case("max_pool1d", one, r.real(1, 2, 9), Ints([3]), Ints([1]), Ints([1]), Ints([3]), False)
    r.case("max_pool2d", two, r.real(2, 2, 4, 5), Ints([2, 2]), Ints([2, 2]), Ints([0, 0]),
           Ints([1, 1]), False)
    r.case("max_pool2d", two, r.real(2, 6, 7), Ints([3, 2]), Ints([2, 3]), Ints([1, 1]),
           Ints([1, 2]), True)
    ties = torch.tensor([[[[1.0, 2.0, 2.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]])
    r.case("max_pool2d", two, ties, Ints([2, 2]), Ints([1, 1]), Ints([0, 0]), Ints([1, 1]), False)

    def average(function):
        return lambda x, k, s, p, ceil, count: function(x, tuple(k), tuple(s), tuple(p), ceil, count)

    one, two = average(F.avg_pool1d), average(F.avg_pool2d)
    for count in (True, False):
        r.case("avg_pool1d", one, r.real(2, 2, 7), Ints([3]), Ints([2]), Ints([1]), False, count)
        r.case("avg_pool1d", one, r.real(2, 8), Ints([3]), Ints([2]), Ints([1]), True, count)
        r.case("avg_pool2d", two, r.real(2, 2, 4, 5), Ints([2, 2]), Ints([2, 2]), Ints([0, 0]),
               False, count)
        r.case("avg_pool2d", two, r.real(2, 6, 6), Ints([3, 2]), Ints([2, 3]), Ints([1, 1]), True,
               count)
    r.case("avg_pool2d", lambda x, k, s, p, ceil, count, d: F.avg_pool2d(
        x, tuple(k), tuple(s), tuple(p), ceil, count, d), r.real(1, 2, 4, 4), Ints([3, 3]),
        Ints([1, 1]), Ints([1, 1]), False, True, 7)

    def adaptive(function):
        return lambda x, n: function(x, tuple(n))

    r.case("adaptive_avg_pool1d", lambda x, n: F.adaptive_avg_pool1d(x, n[0]), r.real(2, 3, 7),
           Ints([1]))
    r.case("adaptive_avg_pool1d", lambda x, n: F.adaptive_avg_pool1d(x, n[0]), r.real(2, 7),
           Ints([3]))
    two = adaptive(F.adaptive_avg_pool2d)
    r.case("adaptive_avg_pool2d", two, r.real(2, 3, 4, 5), Ints([1, 1]))
    r.case("adaptive_avg_pool2d", two, r.real(2, 5, 7), Ints([2, 3]))
    r.case("adaptive_avg_pool2d", two, r.real(1, 1, 2, 3), Ints([3, 5]))


def record_batch_norm(r):
    def batch_norm(x, weight, bias, mean, variance, training, eps):
        # What is given is neither a leaf nor changed.
        mean = mean if mean is None else mean.detach().clone()
        variance = variance if variance is None else variance.detach().clone()
        return F.batch_norm(x, mean, variance, weight, bias, training, 0.1, eps)

    r.case("batch_norm", batch_norm, r.real(4, 3), r.real(3), r.real(3), None, None, True, 1e-5)
    r.case("batch_norm", batch_norm, r.real(3, 2, 4, 5), r.real(2), r.real(2), None, None, True,
           1e-3)
    r.case("batch_norm", batch_norm, r.real(2, 3, 4), None, None, None, None, True, 1e-5)
    r.case("batch_norm", batch_norm, r.real(1, 2, 18), r.real(2), r.real(2), r.real(2), r.real(2),
           True, 1e-5)
    for sizes in ((2, 3), (2, 3, 17), (2, 3, 2, 2)):
        r.case("batch_norm", batch_norm, r.real(*sizes), r.real(3), r.real(3), r.real(3),
               r.real(3, low=0.25), False, 1e-5)


def record_shaped_losses(r):
    """Classes in dimension 1 with more dimensions behind, or in the only one; broadcast targets."""
    shaped = torch.tensor([[[0, 2], [1, 0]], [[2, 2], [0, 1]]])
    def cross_entropy(x, target, reduction, ignore_index, label_smoothing):
        return F.cross_entropy(x, target, reduction=REDUCTIONS[reduction],
                               ignore_index=ignore_index, label_smoothing=label_smoothing)

    def nll(x, target, reduction, ignore_index):
        return F.nll_loss(x, target, reduction=REDUCTIONS[reduction],
                          ignore_index=ignore_index)

    for reduction in REDUCTIONS:
        for smoothing in (0.0, 0.3):
            r.case("cross_entropy", cross_entropy, r.real(2, 3, 2, 2), shaped, reduction, 1,
                   smoothing)
        r.case("nll", nll, r.real(2, 3, 2, 2), shaped, reduction, 1)
        r.case("nll", nll, r.real(3), torch.tensor(1), reduction, -100)
        r.case("cross_entropy", cross_entropy, r.real(3), torch.tensor(1), reduction, -100, 0.1)
    r.case("linear", F.linear, r.real(2, 3, 4), r.real(5, 4), r.real(5))
    r.case("matmul", torch.matmul, r.real(2, 1, 2, 3), r.real(3, 3, 2))
    r.case("softmax", torch.softmax, r.real(2, 3, 2) * 100, 1)
    r.case("log_softmax", torch.log_softmax, r.real(2, 3, 2) * 1000, 1)


def record_comparisons(r):
    def equal(a, b):
        return torch.tensor(torch.equal(a, b))

    def allclose(a, b, relative, absolute):
        return torch.tensor(torch.allclose(a, b, relative, absolute))

    x = r.ints(2, 3).to(f32)
    r.case("equal", equal, x, x.clone())
    r.case("equal", equal, x, x + 1)
    r.case("equal", equal, x, x.reshape(3, 2))
    nan = torch.tensor([float("nan"), 1.0])
    r.case("equal", equal, nan, nan.clone())
    r.case("allclose", allclose, nan, nan.clone(), 1e-5, 1e-8)
    for relative, absolute in ((1e-5, 1e-8), (1e-5, 1e-3), (1e-3, 1e-8)):
        r.case("allclose", allclose, x, x + 1e-4, relative, absolute)


def record_recurrent(r):
    """One layer, one direction. PyTorch has sequences of several lengths only in its packed form; see layers."""
    def turned(f):
        return lambda reverse, x, *rest: f(x.flip(0), *rest).flip(0) if reverse else f(x, *rest)

    def weights(ih, hh, bias_ih, bias_hh):
        return [ih, hh] if bias_ih is None else [ih, hh, bias_ih, bias_hh]

    def zeros_like(b):
        return None if b is None else torch.zeros_like(b)

    def run(f, x, state, w):
        return f(x, state, w, len(w) == 4, 1, 0.0, False, False, False)[0]

    lstm = turned(lambda x, h, c, ih, hh, b: run(
        torch._VF.lstm, x, (h[None], c[None]), weights(ih, hh, b, zeros_like(b))))
    gru = turned(lambda x, h, *w: run(torch._VF.gru, x, h[None], weights(*w)))
    rnns = [turned(lambda x, h, ih, hh, b, f=f: run(
        f, x, h[None], weights(ih, hh, b, zeros_like(b))))
        for f in (torch._VF.rnn_tanh, torch._VF.rnn_relu)]
    for reverse, bias in ((False, False), (True, True)):
        def some(*sizes):
            return r.real(*sizes, low=-1, high=1)

        r.case("lstm", lambda x, h, c, ih, hh, b, lengths, back: lstm(back, x, h, c, ih, hh, b),
               some(4, 3, 2), some(3, 5), some(3, 5), some(20, 2), some(20, 5),
               some(20) if bias else None, None, reverse)
        r.case("gru", lambda x, h, ih, hh, a, b, lengths, back: gru(back, x, h, ih, hh, a, b),
               some(4, 3, 2), some(3, 5), some(15, 2), some(15, 5),
               some(15) if bias else None, some(15) if bias else None, None, reverse)
        for i, rnn in enumerate(rnns):
            r.case("rnn",
                   lambda x, h, ih, hh, b, lengths, back, relu: rnn(back, x, h, ih, hh, b),
                   some(4, 3, 2), some(3, 5), some(5, 2), some(5, 5), some(5) if bias else None,
                   None, reverse, i == 1)


def cases(r):
    record_comparisons(r)
    record_creation(r)
    record_views(r)
    record_arithmetic(r)
    record_unary(r)
    record_products(r)
    record_reductions(r)
    record_losses(r)
    record_layers(r)
    record_comparisons(r)
    record_shaped_losses(r)
    record_batch_norm(r)
    record_convolutions(r)
    record_pools(r)
    record_recurrent(r)


def record_operators(out):
    cases(Recorder(out))


def record_texts(out):
    """How PyTorch prints tensors. The text is as many lines as are said."""
    r = Recorder(out)
    samples = [
        torch.tensor(3.5),
        torch.tensor(7),
        torch.tensor(True),
        torch.tensor([1.0, 2.0, 3.0]),
        torch.tensor([1.0, 2.5, -3.25]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([0.1, 0.2, 0.3]),
        torch.tensor([1e-8, 1.0]),
        torch.tensor([1e10, 1.0]),
        torch.tensor([100000.0, 0.5]),
        torch.tensor([123456792.0, 1.5]),
        torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5]),
        torch.tensor([float("nan"), 2.0]),
        torch.tensor([1, -20, 300]),
        torch.tensor([[True, False], [False, True]]),
        torch.tensor([], dtype=f32),
        torch.zeros(0, 3),
        torch.zeros(2, 3, 4, dtype=f64),
        torch.arange(24, dtype=f32).reshape(2, 3, 4),
        torch.arange(30, dtype=f32),
        torch.arange(30, dtype=i64).reshape(2, 15) * 1000,
        torch.arange(2000, dtype=f32),
        torch.arange(1200, dtype=i64).reshape(40, 30),
        torch.tensor([1, 2], dtype=torch.int32),
        torch.tensor([1, 2], dtype=torch.uint8),
        torch.tensor([1.5, 2.0], dtype=torch.float16),
        torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
        torch.tensor([1.5, 2.0], dtype=f64),
        r.real(3, 4),
    ]
    for x in samples:
        text = str(x)
        for dtype, name in words.DTYPES.items():
            text = text.replace(str(dtype), name)
        lines = text.split("\n")
        out.write(f"\ncase {words.tensor(x)}\ntext {len(lines)}\n" + "\n".join(lines) + "\nend\n")


def record_categorical(out):
    r = Recorder(out)
    for kind in ("probs", "logits"):
        for sizes, value in (((3,), torch.tensor(2)), ((2, 3), torch.tensor([1, 0])),
                             ((2, 2, 3), torch.tensor([[1, 0], [2, 2]])), ((3,), torch.tensor([0, 2, 1, 1]))):
            given = r.real(*sizes, low=0.125, high=2)
            given = given.requires_grad_()
            c = torch.distributions.Categorical(**{kind: given})
            out.write(f"\ncase {kind} {words.tensor(given)}\nvalue {words.tensor(value)}\n")
            for name, y in (("log_prob", c.log_prob(value)), ("entropy", c.entropy())):
                d_y = r.real(*y.shape, low=-1, high=1)
                (grad,) = torch.autograd.grad(y, given, d_y, retain_graph=True)
                out.write(f"{name} {words.tensor(y)}\nd {words.tensor(d_y)}\nd_in {words.tensor(grad)}\n")
            out.write("end\n")
    for kind, given in (("probs", [0.0, 1.0, 0.0]), ("logits", [-2000.0, 0.0, -2000.0])):
        given = torch.tensor(given)
        c = torch.distributions.Categorical(**{kind: given})
        out.write(f"\ncase {kind} {words.tensor(given)}\nvalue {words.tensor(torch.tensor(1))}\n")
        for name, y in (("log_prob", c.log_prob(torch.tensor(1))), ("entropy", c.entropy())):
            out.write(f"{name} {words.tensor(y)}\n")
        out.write("end\n")
