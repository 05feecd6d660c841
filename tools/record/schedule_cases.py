"""Learning rates of two groups under each schedule, and what a cycle does to the momentum."""

import warnings

import torch
from torch.optim import lr_scheduler

STEPS = 30

# The name here, PyTorch's class, its options, ours where they are called otherwise.
CASES = [
    [("step_lr", lr_scheduler.StepLR, {"step_size": 4})],
    [("step_lr", lr_scheduler.StepLR, {"step_size": 7, "gamma": 0.5})],
    [("multi_step_lr", lr_scheduler.MultiStepLR, {"milestones": [3, 9, 9, 20]})],
    [("multi_step_lr", lr_scheduler.MultiStepLR, {"milestones": [1], "gamma": 0.3})],
    [("exponential_lr", lr_scheduler.ExponentialLR, {"gamma": 0.9})],
    [("cosine_annealing_lr", lr_scheduler.CosineAnnealingLR, {"T_max": 7})],
    [("cosine_annealing_lr", lr_scheduler.CosineAnnealingLR, {"T_max": 10, "eta_min": 0.01})],
    [("linear_lr", lr_scheduler.LinearLR, {})],
    [("linear_lr", lr_scheduler.LinearLR, {"start_factor": 0.1, "end_factor": 0.8, "total_iters": 12})],
    [("one_cycle_lr", lr_scheduler.OneCycleLR, {"max_lr": 0.5, "total_steps": STEPS + 1})],
    [
        (
            "one_cycle_lr",
            lr_scheduler.OneCycleLR,
            {
                "max_lr": 0.2,
                "total_steps": STEPS + 1,
                "pct_start": 0.4,
                "anneal_strategy": "linear",
                "base_momentum": 0.5,
                "max_momentum": 0.9,
                "div_factor": 10.0,
                "final_div_factor": 100.0,
                "three_phase": True,
            },
        )
    ],
    [
        (
            "one_cycle_lr",
            lr_scheduler.OneCycleLR,
            {"max_lr": 0.2, "total_steps": STEPS + 1, "cycle_momentum": False},
        )
    ],
    [("reduce_lr_on_plateau", lr_scheduler.ReduceLROnPlateau, {"patience": 2, "factor": 0.5})],
    [
        (
            "reduce_lr_on_plateau",
            lr_scheduler.ReduceLROnPlateau,
            {"mode": "max", "patience": 1, "cooldown": 2, "min_lr": 0.01, "threshold": 0.05},
        )
    ],
    [
        (
            "reduce_lr_on_plateau",
            lr_scheduler.ReduceLROnPlateau,
            {"patience": 0, "threshold_mode": "abs", "threshold": 0.25, "eps": 0.02},
        )
    ],
    [("linear_lr", lr_scheduler.LinearLR, {"total_iters": 6}), ("step_lr", lr_scheduler.StepLR, {"step_size": 10})],
    [
        ("linear_lr", lr_scheduler.LinearLR, {"total_iters": 4}),
        ("cosine_annealing_lr", lr_scheduler.CosineAnnealingLR, {"T_max": 8}),
    ],
]

FLAGS = {
    ("anneal_strategy", "linear"): "linear",
    ("mode", "max"): "max",
    ("threshold_mode", "abs"): "absolute",
    ("three_phase", True): "three_phase",
}
NAMES = {"T_max": "t_max"}


def option(key, v):
    if key == "milestones":
        return " ".join(["milestones", str(len(v))] + [str(m) for m in v])
    if (key, v) in FLAGS:
        return FLAGS[(key, v)] + " 1"
    if isinstance(v, bool):
        return f"{key} {int(v)}"
    return f"{NAMES.get(key, key)} {float(v)!r}"


def metric(step):
    return 2.0 + (step * 7 % 5) * 0.125 - step * 0.03125


def rates(opt):
    return " ".join(f"{g['lr']!r} {g['momentum']!r}" for g in opt.param_groups)


def record_schedules(out):
    warnings.simplefilter("ignore")
    for case in CASES:
        params = [torch.zeros(1, requires_grad=True) for _ in range(2)]
        opt = torch.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.125}], lr=0.5, momentum=0.75)
        schedulers = []
        out.write("\ncase\n")
        for name, make, options in case:
            schedulers.append(make(opt, **options))
            out.write(f"schedule {name}\n")
            for key, v in options.items():
                out.write(f"option {option(key, v)}\n")
        out.write(f"rates {rates(opt)}\n")
        for step in range(1, STEPS + 1):
            for scheduler in schedulers:
                if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                    out.write(f"metric {metric(step)!r}\n")
                    scheduler.step(metric(step))
                else:
                    scheduler.step()
            out.write(f"rates {rates(opt)}\n")
        out.write("end\n")
