"""Layers: names of their state, forward values, gradients, and buffers after the call."""

import torch

import words


class Layers:
    def __init__(self, out):
        self.out = out
        self.numbers = words.Numbers(17)
        self.real = self.numbers.real
        self.ints = self.numbers.ints

    def fill(self, module):
        """Simple numbers for parameters and buffers; variances and scales stay positive."""
        with torch.no_grad():
            for name, x in module.state_dict().items():
                if not x.dtype.is_floating_point:
                    continue
                low, high = (0.5, 1.5) if "var" in name else (-0.75, 0.75)
                x.copy_(self.real(*x.shape, low=low, high=high))

    def case(self, kind, options, module, inputs, call=None, grads=None):
        """Runs |module| on |inputs|; |grads| are the numbers of those that want a gradient."""
        self.fill(module)
        wanted = range(len(inputs)) if grads is None else grads
        inputs = [x if x is None else x.clone() for x in inputs]
        for i in wanted:
            inputs[i].requires_grad_()
        self.out.write(f"\ncase {kind}\n")
        for key, v in options.items():
            self.out.write(f"option {key} {float(v)!r}\n")
        if options.get("eval"):
            module.eval()
        for name, x in module.state_dict().items():
            self.out.write(f"state {name} {words.tensor(x)}\n")
        for x in inputs:
            grad = " grad" if x is not None and x.requires_grad else ""
            self.out.write(f"in {words.value(x)}{grad}\n")
        result = (call or module)(*inputs)
        self.out.write(f"out {words.tensor(result)}\n")
        d_result = self.real(*result.shape, low=-1, high=1)
        self.out.write(f"d_out {words.tensor(d_result)}\n")
        result.backward(d_result)
        for i in wanted:
            self.out.write(f"d_in {i} {words.tensor(inputs[i].grad)}\n")
        for name, x in module.named_parameters():
            self.out.write(f"d_state {name} {words.tensor(x.grad)}\n")
        for name, x in module.named_buffers():
            self.out.write(f"after {name} {words.tensor(x)}\n")
        self.out.write("end\n")


def record_simple(r):
    nn = torch.nn
    r.case("linear", {"in": 4, "out": 3}, nn.Linear(4, 3), [r.real(2, 4)])
    r.case("linear", {"in": 4, "out": 3, "no_bias": 1}, nn.Linear(4, 3, bias=False), [r.real(4)])
    r.case("layer_norm", {"size": 5}, nn.LayerNorm(5), [r.real(2, 3, 5)])
    r.case("layer_norm", {"size": 2, "size_1": 3, "eps": 0.125}, nn.LayerNorm((2, 3), eps=0.125),
           [r.real(4, 2, 3)])
    r.case("layer_norm", {"size": 6, "no_affine": 1}, nn.LayerNorm(6, elementwise_affine=False),
           [r.real(3, 6)])


def record_convolutions(r):
    def case(make, kind, n_in, n_out, x, **options):
        said = {"in": n_in, "out": n_out}
        for key, v in options.items():
            for i, n in enumerate(v if isinstance(v, tuple) else (v,)):
                said[f"{key}_{i}" if isinstance(v, tuple) else key] = n
        if options.pop("no_bias", 0):
            options["bias"] = False
        options["kernel_size"] = options.pop("kernel")
        r.case(kind, said, make(n_in, n_out, **options), [x])

    case(torch.nn.Conv1d, "conv1d", 3, 4, r.real(2, 3, 8), kernel=(3,))
    case(torch.nn.Conv1d, "conv1d", 4, 6, r.real(2, 4, 9), kernel=(2,), stride=(2,), padding=(1,),
         dilation=(3,), groups=2, no_bias=1)
    case(torch.nn.Conv2d, "conv2d", 2, 3, r.real(2, 2, 6, 5), kernel=(3, 3), padding=(1, 1))
    case(torch.nn.Conv2d, "conv2d", 2, 2, r.real(1, 2, 6, 7), kernel=(3, 2), stride=(2, 1),
         padding=(2, 0), dilation=(1, 2), groups=2)


def record_layers(out):
    r = Layers(out)
    record_simple(r)
    record_convolutions(r)
