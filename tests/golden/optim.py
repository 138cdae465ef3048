"""Golden runs of optimizers and schedulers.

The cases are not calls of single operations; tests/optim/optim_golden_test.cpp interprets their names. They have the
values and states after ten steps of every optimizer, with given gradients and parameters of several shapes in two
groups, and the learning rates (and momenta) over fifty steps of every scheduler with two groups. Lion, which PyTorch
lacks, follows the formula of its paper.
"""
import torch
from torch.optim import lr_scheduler as schedulers

from golden import Family, numbers

STEPS, EPOCHS = 10, 50
SHAPES = {"small": [(3, 4), (5,), (), (2, 3, 2)], "matrices": [(6, 4), (4, 6), (5, 5)], "large": [(44, 40), (40, 44)]}


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(beta1 * average + (1 - beta1) * p.grad), alpha=-group["lr"])
                average.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def run(family, name, make, other, inputs):
    """The first half of the parameters has the optimizer's options, the second half also the options of `other`."""
    shapes = SHAPES[inputs]
    p = [numbers(shape, -1, 1, salt=i) for i, shape in enumerate(shapes)]
    gradients = [numbers((STEPS, *shape), -1, 1, salt=10 + i) for i, shape in enumerate(shapes)]
    for i, value in enumerate(p):
        family.tensors[f"{inputs}/before{i}"] = value.clone()
        family.tensors[f"{inputs}/gradients{i}"] = gradients[i]
        value.requires_grad_()
    half = (len(p) + 1) // 2
    optimizer = make([{"params": p[:half]}, {"params": p[half:], **other}])
    for step in range(STEPS):
        for value, gradient in zip(p, gradients):
            value.grad = gradient[step].clone()
        optimizer.step()
    for i, value in enumerate(p):
        family.tensors[f"{name}/after{i}"] = value.detach().clone()
        for key, state in optimizer.state[value].items():
            if state is not None and not (isinstance(optimizer, torch.optim.RMSprop) and key == "step"):
                family.tensors[f"{name}/state{i}/{key}"] = state.clone().float()
    family.counts[name] = 1


def optimizers(family):
    def case(name, kind, other, inputs="small", **options):
        run(family, name, lambda groups: kind(groups, **options), other, inputs)

    sgd, adam, adamw, rms, ada, muon = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW,
                                        torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Muon)
    case("sgd0", sgd, {"lr": 0.03}, lr=0.1)
    case("sgd1", sgd, {"lr": 0.03, "weight_decay": 0.0}, lr=0.1, momentum=0.9, weight_decay=0.1)
    case("sgd2", sgd, {"momentum": 0.5}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)
    case("sgd3", sgd, {"dampening": 0.0}, lr=0.1, momentum=0.9, dampening=0.4, weight_decay=0.1, maximize=True)
    case("sgd4", sgd, {"momentum": 0.9}, lr=0.1, maximize=True)
    case("adam0", adam, {"lr": 0.01}, lr=0.05)
    case("adam1", adam, {"betas": (0.5, 0.9), "eps": 1e-2}, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
    case("adam2", adam, {"amsgrad": False}, lr=0.05, betas=(0.9, 0.5), amsgrad=True)
    case("adam3", adam, {"weight_decay": 0.0}, lr=0.05, betas=(0.9, 0.5), amsgrad=True, maximize=True, weight_decay=0.1)
    case("adamw0", adamw, {"weight_decay": 0.0}, lr=0.05, weight_decay=0.2)
    case("adamw1", adamw, {"lr": 0.01}, lr=0.05, betas=(0.9, 0.5), amsgrad=True, maximize=True)
    case("rmsprop0", rms, {"lr": 0.002}, lr=0.01)
    case("rmsprop1", rms, {"alpha": 0.5, "momentum": 0.0}, lr=0.01, alpha=0.9, eps=1e-4, momentum=0.9, weight_decay=0.1)
    case("rmsprop2", rms, {"centered": False}, lr=0.01, centered=True, maximize=True)
    case("rmsprop3", rms, {"weight_decay": 0.0}, lr=0.01, centered=True, momentum=0.5, weight_decay=0.1)
    case("adagrad0", ada, {"lr": 0.02}, lr=0.1)
    case("adagrad1", ada, {"lr_decay": 0.0}, lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-3,
         initial_accumulator_value=0.3)
    case("adagrad2", ada, {"weight_decay": 0.2}, lr=0.1, maximize=True)
    case("lion0", Lion, {"lr": 0.002}, lr=0.01)
    case("lion1", Lion, {"weight_decay": 0.0}, lr=0.01, betas=(0.5, 0.8), weight_decay=0.2)
    case("muon0", muon, {"lr": 0.005}, "matrices", lr=0.02)
    case("muon1", muon, {"nesterov": False}, "matrices", lr=0.02, momentum=0.5, weight_decay=0.5, ns_steps=3,
         adjust_lr_fn="match_rms_adamw")
    case("muon2", muon, {"weight_decay": 0.0}, "large", lr=0.02,
         ns_coefficients=(3.0, -3.2, 1.2), eps=1e-3)


def schedule(family, name, make, metrics=None, kind=torch.optim.SGD, **options):
    p = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = kind([{"params": [p[0]], "lr": 0.5}, {"params": [p[1]], "lr": 0.04}], **options)
    scheduler = make(optimizer)
    rates, momenta = [], []
    for epoch in range(EPOCHS + 1):
        rates.append([group["lr"] for group in optimizer.param_groups])
        momenta.append([group["betas"][0] if "betas" in group else group.get("momentum", 0.0)
                        for group in optimizer.param_groups])
        if epoch == EPOCHS:
            break
        optimizer.step()
        if metrics is None:
            scheduler.step()
        else:
            scheduler.step(metrics[epoch])
    family.tensors[f"{name}/lr"] = torch.tensor(rates, dtype=torch.float64)
    family.tensors[f"{name}/momentum"] = torch.tensor(momenta, dtype=torch.float64)
    if metrics is not None:
        family.tensors[f"{name}/metrics"] = torch.tensor(metrics, dtype=torch.float64)
    family.counts[name] = 1


def warmup(optimizer, steps, total, factor, low):
    return schedulers.SequentialLR(
        optimizer, [schedulers.LinearLR(optimizer, factor, 1.0, steps),
                    schedulers.CosineAnnealingLR(optimizer, total - steps, low)], [steps])


def all_schedulers(family):
    schedule(family, "step", lambda o: schedulers.StepLR(o, 7, 0.3))
    schedule(family, "multi_step", lambda o: schedulers.MultiStepLR(o, [3, 10, 10, 31], 0.5))
    schedule(family, "exponential", lambda o: schedulers.ExponentialLR(o, 0.93))
    schedule(family, "linear0", lambda o: schedulers.LinearLR(o))
    schedule(family, "linear1", lambda o: schedulers.LinearLR(o, 0.9, 0.1, 40))
    schedule(family, "cosine0", lambda o: schedulers.CosineAnnealingLR(o, 50))
    schedule(family, "cosine1", lambda o: schedulers.CosineAnnealingLR(o, 12, 0.01))
    schedule(family, "warmup", lambda o: warmup(o, 8, 50, 0.1, 0.003))
    # These run for 51 steps: after its last step PyTorch's scheduler continues linearly below 0.
    for i, options in enumerate([
            {"max_lr": 0.7}, {"max_lr": [0.7, 0.1], "anneal_strategy": "linear"},
            {"max_lr": 0.7, "three_phase": True, "pct_start": 0.35, "div_factor": 10.0, "final_div_factor": 50.0},
            {"max_lr": 0.7, "base_momentum": [0.6, 0.7], "max_momentum": [0.8, 0.9], "anneal_strategy": "linear",
             "three_phase": True},
            {"max_lr": 0.7, "cycle_momentum": False}]):
        schedule(family, f"one_cycle{i}", lambda o: schedulers.OneCycleLR(o, total_steps=51, **options), momentum=0.9)
    schedule(family, "one_cycle_adam", lambda o: schedulers.OneCycleLR(o, 0.7, total_steps=51), kind=torch.optim.Adam)
    falling = [1 / (1 + min(i, 20)) + 0.002 * (i % 3) for i in range(EPOCHS)]
    growing = [-value for value in falling]
    for i, (metrics, options) in enumerate([
            (falling, {"patience": 2}), (falling, {"factor": 0.5, "patience": 3, "cooldown": 4, "min_lr": [0.05, 0.01]}),
            (falling, {"threshold": 0.02, "threshold_mode": "abs", "patience": 1, "min_lr": 1e-3}),
            (growing, {"mode": "max", "patience": 2, "factor": 0.7, "eps": 1e-3}),
            (growing, {"mode": "max", "threshold": 0.05, "threshold_mode": "abs", "patience": 0})]):
        schedule(family, f"plateau{i}", lambda o: schedulers.ReduceLROnPlateau(o, **options), metrics)


def cases():
    family = Family()
    optimizers(family)
    all_schedulers(family)
    return family
