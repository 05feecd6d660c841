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
]


def options_of(name, options):
    """Options as gradwire has them: -1 says 0 where 0 would be the default."""
    flat = {}
    for key, v in options.items():
        if key == "betas":
            flat["beta1"], flat["beta2"] = v
        else:
            flat[key] = v
    for key in ("beta1", "beta2", "weight_decay"):
        if flat.get(key) == 0.0:
            flat[key] = -1.0
    return flat


def record_optimizers(out):
    for dtype in (torch.float32, torch.float64):
        for name, make, options in CASES:
            params, x, y = (p for p in problem(words.Numbers(11)))
            params = [p.to(dtype).requires_grad_() for p in params]
            x, y = x.to(dtype), y.to(dtype)
            out.write(f"\ncase {name}\n")
            for key, v in options_of(name, options).items():
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
