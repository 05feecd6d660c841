"""Twenty steps of each optimizer, and clipping."""

import torch

import words

STEPS = 20


def problem(numbers):
    """A two-layer network and its data, small enough to write down.

    No parameter comes near 0 in 20 steps, where rounding would be large beside it.
    """
    params = [
        numbers.real(5, 3, low=0.5, high=0.9),
        numbers.real(5, low=0.5, high=0.9),
        numbers.real(1, 5, low=-0.9, high=-0.5),
        numbers.real(1, low=0.5, high=1.0),
    ]
    return params, numbers.real(8, 3, low=-1, high=2), numbers.real(8, 1, low=-3, high=-1)


def loss_of(params, x, y):
    h = torch.tanh(torch.nn.functional.linear(x, params[0], params[1]))
    return torch.nn.functional.mse_loss(torch.nn.functional.linear(h, params[2], params[3]), y)


CASES = [
    ("sgd", torch.optim.SGD, {"lr": 0.02}),
    ("sgd", torch.optim.SGD, {"lr": 0.02, "weight_decay": 0.1}),
    ("sgd", torch.optim.SGD, {"lr": 0.004, "momentum": 0.9}),
    ("sgd", torch.optim.SGD, {"lr": 0.004, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("sgd", torch.optim.SGD, {"lr": 0.004, "momentum": 0.9, "nesterov": True}),
    ("sgd", torch.optim.SGD, {"lr": 0.004, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}),
    ("adam", torch.optim.Adam, {}),
    ("adam", torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-4}),
    ("adam", torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    ("adam", torch.optim.Adam, {"lr": 0.01, "betas": (0.0, 0.99)}),
    ("adamw", torch.optim.AdamW, {}),
    ("adamw", torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    ("adamw", torch.optim.AdamW, {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.0}),
    ("sgd", torch.optim.SGD, {"lr": 0.002, "momentum": 0.5, "weight_decay": 0.01, "maximize": True}),
    ("adam", torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.9), "amsgrad": True}),
    ("adam", torch.optim.Adam, {"lr": 0.003, "weight_decay": 0.01, "maximize": True}),
    ("adamw", torch.optim.AdamW, {"lr": 0.01, "betas": (0.8, 0.9), "amsgrad": True, "maximize": True}),
    ("adamax", torch.optim.Adamax, {}),
    ("adamax", torch.optim.Adamax, {"lr": 0.01, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("adamax", torch.optim.Adamax, {"lr": 0.01, "maximize": True}),
    ("adagrad", torch.optim.Adagrad, {}),
    ("adagrad", torch.optim.Adagrad, {"lr": 0.02, "lr_decay": 0.1, "weight_decay": 0.1}),
    ("adagrad", torch.optim.Adagrad, {"initial_accumulator_value": 0.5, "eps": 1e-3, "maximize": True}),
    ("adadelta", torch.optim.Adadelta, {}),
    ("adadelta", torch.optim.Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}),
    ("adadelta", torch.optim.Adadelta, {"rho": 0.0, "maximize": True}),
    ("rmsprop", torch.optim.RMSprop, {}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 0.002, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 0.002, "momentum": 0.5}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 0.002, "alpha": 0.5, "eps": 0.1, "centered": True}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 0.001, "eps": 0.1, "centered": True, "momentum": 0.5, "maximize": True}),
    ("rprop", torch.optim.Rprop, {}),
    ("rprop", torch.optim.Rprop, {"lr": 0.02, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.05)}),
    ("rprop", torch.optim.Rprop, {"lr": 0.001, "maximize": True}),
]


def options_of(options):
    """Options as gradwire has them."""
    pairs = {
        "betas": ("beta1", "beta2"),
        "etas": ("eta_minus", "eta_plus"),
        "step_sizes": ("step_size_min", "step_size_max"),
    }
    flat = {}
    for key, v in options.items():
        for name, one in zip(pairs[key], v) if key in pairs else [(key, v)]:
            flat[name] = float(one)
    return flat


def record_optimizers(out):
    for dtype in (torch.float32, torch.float64):
        for name, make, options in CASES:
            params, x, y = (p for p in problem(words.Numbers(11)))
            params = [p.to(dtype).requires_grad_() for p in params]
            x, y = x.to(dtype), y.to(dtype)
            out.write(f"\ncase {name}\n")
            for key, v in options_of(options).items():
                out.write(f"option {key} {float(v)!r}\n")
            out.write(f"x {words.tensor(x)}\ny {words.tensor(y)}\n")
            for p in params:
                out.write(f"param {words.tensor(p)}\n")
            opt = make(params, **options)
            for step in range(1, STEPS + 1):
                opt.zero_grad()
                loss_of(params, x, y).backward()
                opt.step()
                if step in (1, 2, STEPS):
                    out.write(f"step {step}\n")
                    for p in params:
                        out.write(f"param {words.tensor(p)}\n")
            out.write("end\n")


SPARSE_CASES = [
    ("sgd", torch.optim.SGD, {"lr": 0.1}),
    ("sgd", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    ("adagrad", torch.optim.Adagrad, {"lr": 0.1}),
    ("adagrad", torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("sparse_adam", torch.optim.SparseAdam, {"lr": 0.05}),
    ("sparse_adam", torch.optim.SparseAdam, {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-4, "maximize": True}),
]


def record_sparse(out):
    """A table of six rows, of which each step names some, one of them twice."""
    for dtype in (torch.float32, torch.float64):
        for name, make, options in SPARSE_CASES:
            numbers = words.Numbers(7)
            table = numbers.real(6, 3, low=1.0, high=2.0).to(dtype).requires_grad_()
            out.write(f"\ncase {name}\n")
            for key, v in options_of(options).items():
                out.write(f"option {key} {float(v)!r}\n")
            out.write(f"param {words.tensor(table)}\n")
            opt = make([table], **options)
            for step in range(1, STEPS + 1):
                at = numbers.ints(4, low=0, high=5)
                weight = numbers.real(4, 3, low=0.5, high=1.0).to(dtype)
                opt.zero_grad(set_to_none=True)
                x = torch.nn.functional.embedding(at, table, sparse=True)
                (x * x * weight).sum().backward()
                opt.step()
                out.write(f"at {words.tensor(at)}\nweight {words.tensor(weight)}\n")
                if step in (1, 2, 3, STEPS):
                    out.write(f"param {words.tensor(table)}\n")
            out.write("end\n")


def record_clipping(out):
    numbers = words.Numbers(5)
    for max_norm in (0.5, 1.0, 100.0):
        grads = [numbers.real(3, 2), numbers.real(4), numbers.real()]
        params = [torch.zeros_like(g).requires_grad_() for g in grads]
        for p, g in zip(params, grads):
            p.grad = g.clone()
        total = torch.nn.utils.clip_grad_norm_(params, max_norm)
        out.write(f"\ncase clip {max_norm}\n")
        for g in grads:
            out.write(f"grad {words.tensor(g)}\n")
        out.write(f"total {total.item():.9g}\n")
        for p in params:
            out.write(f"clipped {words.tensor(p.grad)}\n")
        out.write("end\n")
