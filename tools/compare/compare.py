#!/usr/bin/python3
"""Compares operators with PyTorch itself, on random numbers, shapes, strides and dtypes.

The cases of tools/record say how each operator is called on either side. Each is a pattern here:
its numbers are drawn anew, among them infinite ones and NaN, its sizes and dtypes are exchanged,
its tensors are laid out in other orders. What PyTorch refuses is not compared.

    tools/compare/compare.py [ROUNDS [SEED [OPERATOR]]]

Exits with 77 where PyTorch is not installed.
"""

import os
import random
import sys
import warnings

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "record"))

try:
    import torch
except ImportError:
    print("PyTorch is not installed: nothing is compared (apt-get install python3-torch)")
    sys.exit(77)

import gradwire  # noqa: E402
import number_cases  # noqa: E402
import operator_cases  # noqa: E402
import picking_cases  # noqa: E402

SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3e4, -3e4, 1e-6]
SIZES = [1, 2, 3, 5, 8, 17, 33]
TOLERANCES = {torch.float32: 2e-5, torch.float64: 1e-10, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SHOWN = 3  # differences of one operator

# What chance decides.
CHANCE = {"multinomial", "bernoulli", "randint", "randperm", "dropout"}

# Where PyTorch crashes if sizes do not fit together, or gives gradients to windows of padding only;
# and where it takes no halves, computes wrongly with them, or orders equal ones in its own way.
RIGID = {"lstm", "gru", "rnn", "max_pool1d", "max_pool2d"}
NO_HALVES = {"lstm", "gru", "rnn", "norm", "log_softmax", "topk"}

# What is different on purpose, or where PyTorch has no one answer, for infinite numbers, NaN and
# sizes of 0.
ODD = {
    "amax": "beside NaN its numbers share the gradient, and others get none",
    "amin": "the same",
    "max": "the same",
    "min": "the same",
    "cross_entropy": "what is ignored gets no gradient, whatever stands there",
    "nll": "the same",
    "norm": "what is NaN has NaN as gradient",
    "prod": "the gradient is the product of the others, without a division",
    "kl_div": "at a target of 0 the gradient is infinite",
    "bce_with_logits": "an infinite logit has an infinite loss, where PyTorch has NaN for one sign",
    "conv1d": "padding counts as 0 times a weight; libraries differ in whether they multiply",
    "conv2d": "the same",
    "batch_norm": "an infinite scale times 0 is NaN in one order of the same operations",
    "layer_norm": "the same",
    "remainder": "the gradient of an infinite divisor",
    "adaptive_avg_pool1d": "planes without numbers are refused",
    "adaptive_avg_pool2d": "the same",
    "topk": "which of equals comes first is said, and is not in PyTorch",
}
REFUSALS = ("no norm -1 of", "no norm -inf of")  # of nothing; torch.linalg.vector_norm refuses too


class Draw:
    """Arguments like those of a pattern."""

    def __init__(self, seed, name):
        self.random = random.Random(seed)
        self.special = self.random.random() < 0.3 and name not in ODD
        self.layout = self.random.choice(["plain", "turned", "spread"])
        halves = [torch.float16, torch.bfloat16] if not self.special and name not in NO_HALVES else []
        self.dtype = self.random.choice([None, None, None, torch.float64] + halves)
        self.sizes = {}
        self.has_empty = name not in ODD
        self.keeps = name in RIGID or self.random.random() < 0.5

    def size(self, n):
        if self.keeps:
            return n
        if n not in self.sizes:
            empty = self.has_empty and self.random.random() < 0.03
            self.sizes[n] = 0 if empty else self.random.choice(SIZES)
        return self.sizes[n]

    def number(self, low, high):
        if self.special and self.random.random() < 0.2:
            return self.random.choice(SPECIAL)
        return self.random.uniform(low, high)

    def tensor(self, x):
        shape = [self.size(n) for n in x.shape]
        count = 1
        for n in shape:
            count *= n
        if not x.is_floating_point():
            known = x.flatten().tolist() or [0]
            values = [self.random.choice(known) for _ in range(count)]
            return torch.tensor(values, dtype=x.dtype).reshape(shape)
        finite = [v for v in x.flatten().tolist() if abs(v) < 1e30] or [0.0]
        low, high = min(finite), max(finite)
        values = [self.number(low, high) for _ in range(count)]
        return torch.tensor(values, dtype=torch.float64).reshape(shape).to(self.dtype or x.dtype)

    def argument(self, a):
        if isinstance(a, torch.Tensor):
            return self.tensor(a)
        return [self.argument(x) for x in a] if type(a) is list else a


def lay(x, layout):
    """|x| in a layout, and how ours is made of the numbers underneath."""
    if layout == "turned" and x.dim() > 1:
        order = list(range(x.dim()))[::-1]
        under = x.permute(order).contiguous()
        return under.permute(order), under, ("permute", [order])
    if layout == "spread" and x.dim() > 0:
        n = x.shape[-1]
        under = torch.zeros(list(x.shape[:-1]) + [2 * n], dtype=x.dtype)
        under[..., ::2] = x
        return under[..., ::2], under, ("slice", [-1, 0, 2 * n, 2])
    return x, x, None


class Case:
    """The same call on both sides."""

    def __init__(self, name, function, args, layout):
        self.name, self.function, self.args, self.layout = name, function, args, layout

    def each(self, make):
        return [[make(x) if isinstance(x, torch.Tensor) else x for x in a]
                if type(a) is list else make(a) if isinstance(a, torch.Tensor) else a
                for a in self.args]

    def theirs(self):
        leaves = []

        def make(x):
            x = lay(x, self.layout)[0].detach()
            if x.is_floating_point():
                leaves.append(x.requires_grad_())
            return x

        results = self.function(*self.each(make))
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        wanted = [y for y in results if y.requires_grad]
        gradients = [torch.rand(y.shape, dtype=torch.float64).to(y.dtype) for y in wanted]
        grads = torch.autograd.grad(wanted, leaves, gradients, allow_unused=True) if wanted else []
        indices = [i for i, y in enumerate(results) if y.requires_grad]
        return [y.detach() for y in results], indices, gradients, list(grads)

    def ours(self, library, indices, gradients, theirs):
        """|indices|: of results with |gradients|; |theirs|: those of the leaves."""
        s = gradwire.Scope(library)
        leaves = []

        def make(x):
            _, under, how = lay(x, self.layout)
            out = s.tensor(under)
            if how:
                out = s.call(how[0], [gradwire.Value(gradwire.TENSOR, 0, out, 0)] + how[1])[0]
            if x.is_floating_point():
                leaves.append(library.requires_grad(s.s, out))
            return gradwire.Value(gradwire.TENSOR, 0, out, 0)

        try:
            results = s.call(self.name, self.each(make))
            grads = []
            if indices:
                s.backward([results[i] for i in indices], gradients)
                grads = [library.grad(s.s, x) if d is not None else None
                         for x, d in zip(leaves, theirs)]
                s.check()
            return [s.numbers(y) for y in results], [g and s.numbers(g) for g in grads]
        finally:
            s.close()

    def __str__(self):
        def say(a):
            if isinstance(a, torch.Tensor):
                text = "x".join(str(n) for n in a.shape) or "scalar"
                numbers = a.flatten().tolist()
                shown = f" {numbers}" if len(numbers) <= 8 else ""
                return f"{str(a.dtype)[6:]} {text}{shown}"
            return f"[{', '.join(say(x) for x in a)}]" if type(a) is list else str(a)

        return f"{self.name}({', '.join(say(a) for a in self.args)}) {self.layout}"


def largest(x):
    x = x.detach().double()
    return float(x[x.isfinite()].abs().max()) if x.isfinite().any() else 0.0


def difference(what, theirs, ours, scale):
    """|scale| is the largest number that went into them."""
    if theirs is None:
        return None
    if theirs.is_sparse:
        theirs = theirs.to_dense()
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        return f"{what}: {theirs.dtype} {list(theirs.shape)}, not {ours.dtype} {list(ours.shape)}"
    if not theirs.is_floating_point():
        return None if torch.equal(theirs, ours) else f"{what}: {theirs.flatten()[:8].tolist()}, not {ours.flatten()[:8].tolist()}"
    tolerance = TOLERANCES[theirs.dtype]
    a, b = theirs.double(), ours.double()
    scale = max(scale, largest(a))
    wrong = ~torch.isclose(b, a, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    if not wrong.any():
        return None
    return f"{what}: {a[wrong][:4].tolist()}, not {b[wrong][:4].tolist()}"


def compare(library, case):
    """What is different, or None; and whether PyTorch takes the case."""
    try:
        results, indices, gradients, grads = case.theirs()
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None, False
    try:
        our_results, our_grads = case.ours(library, indices, gradients, grads)
    except gradwire.Refused as e:
        known = any(text in str(e) for text in REFUSALS)
        return None if known else f"refused: {e}", True
    if len(results) != len(our_results):
        return f"{len(results)} results, not {len(our_results)}", True
    pairs = [(f"result {i}", a, b) for i, (a, b) in enumerate(zip(results, our_results))]
    pairs += [(f"gradient {i}", a, b) for i, (a, b) in enumerate(zip(grads, our_grads))]
    scale = [1.0]
    case.each(lambda x: scale.append(largest(x)))
    if case.name == "topk":
        del pairs[1]
    for what, a, b in pairs:
        text = difference(what, a, b, max(scale))
        if text:
            return text, True
    return None, True


class Comparer(operator_cases.Recorder):
    """Compares what it is to record. Cases are called at once: they use variables of their loops."""

    def __init__(self, library, seed, only):
        super().__init__(None)
        self.library, self.seed, self.only = library, seed, only
        self.count = self.compared = self.refused = 0
        self.names, self.different = set(), {}

    def case(self, name, function, *args):
        self.count += 1
        if name in CHANCE or (self.only and name != self.only):
            return
        self.names.add(name)
        torch.manual_seed(self.count)
        draw = Draw(f"{self.seed} {self.count}", name)
        case = Case(name, function, [draw.argument(a) for a in args], draw.layout)
        text, taken = compare(self.library, case)
        self.compared, self.refused = self.compared + taken, self.refused + (not taken)
        if text:
            self.different[name] = self.different.get(name, 0) + 1
            if self.different[name] <= SHOWN:
                print(f"{case}\n    {text}")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    only = sys.argv[3] if len(sys.argv) > 3 else None
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    library = gradwire.Library(os.path.join(HERE, "..", "..", "build", "lib", "libgradwire.so"))
    c = Comparer(library, seed, only)
    for _ in range(rounds):
        for module in (operator_cases, picking_cases, number_cases):
            module.cases(c)
    print(f"{c.compared} calls of {len(c.names)} operators compared with PyTorch {torch.__version__}, "
          f"seed {seed}, and {c.refused} that it refuses; different: "
          + (", ".join(f"{n} {k}" for n, k in c.different.items()) or "none"))
    return 1 if c.different else 0


if __name__ == "__main__":
    sys.exit(main())
