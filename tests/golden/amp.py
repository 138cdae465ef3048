"""Golden runs of mixed precision: training under autocast, and sequences of GradScaler.

Not calls of single operations: tests/optim/amp_golden_test.cpp knows the names. On the CPU PyTorch's autocast
leaves layer_norm and cross_entropy in bf16; `.float()` says what it does on CUDA, which is what Volta does.
"""
import torch
import torch.nn.functional as F

from golden import Family, integers, numbers

STEPS = 3


def training(family, name, make_optimizer):
    x, labels = numbers((16, 12), -2, 2), integers((16,), 0, 4)
    parameters = {
        "w1": numbers((24, 12), -0.3, 0.3, salt=1), "b1": numbers((24,), -0.1, 0.1, salt=2),
        "scale": numbers((24,), 0.5, 1.5, salt=3), "shift": numbers((24,), -0.5, 0.5, salt=4),
        "w2": numbers((5, 24), -0.3, 0.3, salt=5), "b2": numbers((5,), -0.1, 0.1, salt=6),
    }
    family.tensors[f"{name}/x"] = x
    family.tensors[f"{name}/labels"] = labels
    for key, value in parameters.items():
        family.tensors[f"{name}/before/{key}"] = value
    p = {key: value.clone().requires_grad_() for key, value in parameters.items()}
    optimizer = make_optimizer(list(p.values()))
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            h = F.gelu(F.linear(x, p["w1"], p["b1"]))
            assert h.dtype == torch.bfloat16
            h = F.layer_norm(h.float(), (24,), p["scale"], p["shift"])
            logits = F.linear(h, p["w2"], p["b2"])
            assert logits.dtype == torch.bfloat16
            loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        for key, value in p.items():
            family.tensors[f"{name}/grad{step}/{key}"] = value.grad.clone()
        optimizer.step()
        losses.append(loss.item())
    family.tensors[f"{name}/losses"] = torch.tensor(losses)
    for key, value in p.items():
        family.tensors[f"{name}/after/{key}"] = value.detach().clone()
    family.counts[name] = 1


def scaling(family, name, make_optimizer):
    """Runs GradScaler on given gradients. Some steps have an infinite or NaN gradient."""
    inf, nan = float("inf"), float("nan")
    bad = {2: inf, 3: nan, 8: -inf, 9: inf, 15: nan}
    count = 18
    gradients = numbers((count, 5), -1, 1, salt=7)
    for step, value in bad.items():
        gradients[step, step % 5] = value
    p = numbers((5,), -1, 1, salt=8).requires_grad_()
    family.tensors[f"{name}/before"] = p.detach().clone()
    family.tensors[f"{name}/gradients"] = gradients
    optimizer = make_optimizer([p])
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    scales, trackers, values = [], [], []
    for step in range(count):
        optimizer.zero_grad()
        scaler.scale((p * gradients[step]).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        trackers.append(scaler.state_dict()["_growth_tracker"])
        values.append(p.detach().clone())
    family.tensors[f"{name}/scales"] = torch.tensor(scales)
    family.tensors[f"{name}/trackers"] = torch.tensor(trackers)
    family.tensors[f"{name}/values"] = torch.stack(values)
    family.counts[name] = 1


def pair(family, name):
    """Runs two optimizers under one scaler, with gradients clipped by their common norm. An infinite gradient skips the
    step of its own optimizer. The other optimizer steps by gradients that were clipped to 0."""
    count, inf = 10, float("inf")
    parameters = [numbers((5,), -1, 1, salt=30 + i).requires_grad_() for i in range(2)]
    gradients = [numbers((count, 5), -1, 1, salt=40 + i) for i in range(2)]
    gradients[1][3, 2], gradients[0][6, 4] = inf, -inf
    for i in range(2):
        family.tensors[f"{name}/before{i}"] = parameters[i].detach().clone()
        family.tensors[f"{name}/gradients{i}"] = gradients[i]
    optimizers = [torch.optim.SGD([parameters[0]], lr=0.1, momentum=0.9),
                  torch.optim.Adam([parameters[1]], lr=0.05)]
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    scales, trackers, norms, values = [], [], [], [[], []]
    for step in range(count):
        for optimizer in optimizers:
            optimizer.zero_grad()
        scaler.scale(sum((p * g[step]).sum() for p, g in zip(parameters, gradients))).backward()
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 0.8).item())
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        trackers.append(scaler.state_dict()["_growth_tracker"])
        for i in range(2):
            values[i].append(parameters[i].detach().clone())
    family.tensors[f"{name}/scales"] = torch.tensor(scales)
    family.tensors[f"{name}/trackers"] = torch.tensor(trackers)
    family.tensors[f"{name}/norms"] = torch.tensor(norms)
    for i in range(2):
        family.tensors[f"{name}/values{i}"] = torch.stack(values[i])
    family.counts[name] = 1


def clipping(family, name, max_norm, norm_type):
    shapes = [(3, 4), (5,), (), (2, 3, 2)]
    parameters = [torch.zeros(shape, requires_grad=True) for shape in shapes]
    for i, p in enumerate(parameters):
        p.grad = numbers(p.shape, -2, 2, salt=20 + i)
        family.tensors[f"{name}/grad{i}"] = p.grad.clone()
    family.tensors[f"{name}/arguments"] = torch.tensor([max_norm, norm_type], dtype=torch.float64)
    family.tensors[f"{name}/norm"] = torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
    for i, p in enumerate(parameters):
        family.tensors[f"{name}/clipped{i}"] = p.grad.clone()
    family.counts[name] = 1


def cases():
    family = Family()
    training(family, "train_sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    training(family, "train_adam", lambda p: torch.optim.Adam(p, lr=0.01))
    scaling(family, "scale_sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01))
    scaling(family, "scale_dampened", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5))
    scaling(family, "scale_adam", lambda p: torch.optim.Adam(p, lr=0.05))
    scaling(family, "scale_adamw", lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1))
    pair(family, "scale_pair")
    for i, (max_norm, norm_type) in enumerate([(1.0, 2.0), (100.0, 2.0), (0.5, 1.0), (0.7, float("inf")), (1.3, 3.0)]):
        clipping(family, f"clip{i}", max_norm, norm_type)
    return family
