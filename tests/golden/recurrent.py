"""Golden runs of recurrent layers and cells.

The cases are not calls of single operations; tests/nn/recurrent_golden_test.cpp interprets their names. A case is
`<kind>/<options>` with the options joined by "_". It has its weights (all parameters in order, flat), its inputs x,
h, c, the gradients g, gh, gc of its results, the results out, hn, cn, and the gradients dx, dh, dc and dw (flat).
`steps/...` are ten steps of SGD, `bf16/...` are the same cases with every input rounded to bf16 and computed in f32.
"""
import itertools

import torch

from golden import Family, numbers

LENGTH, BATCH, INPUT, HIDDEN, PROJECTED = 4, 2, 4, 3, 2


def flat(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def made(kind, options, sizes):
    flags = set(options)
    if kind.endswith("cell"):
        common = {"bias": "nobias" not in flags}
        if kind == "rnncell":
            common["nonlinearity"] = "relu" if "relu" in flags else "tanh"
        module = {"lstmcell": torch.nn.LSTMCell, "grucell": torch.nn.GRUCell, "rnncell": torch.nn.RNNCell}[kind]
    else:
        common = {"bias": "nobias" not in flags, "num_layers": 2 if "l2" in flags else 1,
                  "batch_first": "bf" in flags, "bidirectional": "bi" in flags}
        if kind == "rnn":
            common["nonlinearity"] = "relu" if "relu" in flags else "tanh"
        if "proj" in flags:
            common["proj_size"] = PROJECTED
        module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[kind]
    net = module(sizes[2], sizes[3], **common)
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(numbers(p.shape, -0.7, 0.7, salt=i) * (1 if sizes[3] < 16 else 0.2))
    return net


def inputs(kind, options, sizes):
    length, batch, width, hidden = sizes
    flags = set(options)
    one = "one" in flags
    if kind.endswith("cell"):
        x, state = ((width,), (hidden,)) if one else ((batch, width), (batch, hidden))
    else:
        layers = (2 if "l2" in flags else 1) * (2 if "bi" in flags else 1)
        x = (length, width) if one else (batch, length, width) if "bf" in flags else (length, batch, width)
        state = (layers, hidden) if one else (layers, batch, hidden)
    tensors = {"x": numbers(x, -1, 1)}
    if "state" in flags:
        out = state[:-1] + (PROJECTED,) if "proj" in flags else state
        tensors["h"] = numbers(out, -1, 1, salt=1)
        if kind.startswith("lstm"):
            tensors["c"] = numbers(state, -1, 1, salt=2)
    return tensors


def call(kind, net, given):
    state = (given["h"], given["c"]) if "c" in given else given.get("h")
    result = net(given["x"], state) if state is not None else net(given["x"])
    if kind == "lstmcell":
        return {"hn": result[0], "cn": result[1]}
    if kind.endswith("cell"):
        return {"hn": result}
    if kind == "lstm":
        return {"out": result[0], "hn": result[1][0], "cn": result[1][1]}
    return {"out": result[0], "hn": result[1]}


def case(family, kind, options, sizes=(LENGTH, BATCH, INPUT, HIDDEN), rounded=False):
    name = f"{'bf16/' if rounded else ''}{kind}/{'_'.join(options) or 'plain'}"
    net, given = made(kind, options, sizes), inputs(kind, options, sizes)
    near = (lambda t: t.bfloat16().float()) if rounded else (lambda t: t)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(near(p))
    given = {key: near(t).requires_grad_() for key, t in given.items()}
    results = call(kind, net, given)
    keys = {"out": "g", "hn": "gh", "cn": "gc"}
    gradients = {key: near(numbers(t.shape, -1, 1, salt=5)) for key, t in results.items()}
    sum((results[key] * gradients[key]).sum() for key in results).backward()
    put = lambda key, t: family.tensors.__setitem__(f"{name}/{key}", t.detach().clone())
    put("w", flat(net.parameters()))
    put("dw", flat(p.grad for p in net.parameters()))
    for key, t in given.items():
        put(key, t)
        put("d" + key, t.grad)
    for key, t in results.items():
        put(key, t)
        put(keys[key], gradients[key])
    family.counts[name] = 1


def training(family, kind, options):
    """Ten steps of SGD on the mean squared difference of the outputs and a target."""
    name = f"steps/{kind}/{'_'.join(options)}"
    sizes = (LENGTH, BATCH, INPUT, HIDDEN)
    net, given = made(kind, options, sizes), inputs(kind, options, sizes)
    family.tensors[f"{name}/w"] = flat(net.parameters()).detach().clone()
    for key, t in given.items():
        family.tensors[f"{name}/{key}"] = t
    target = numbers(call(kind, net, given)["out"].shape, -1, 1, salt=9)
    family.tensors[f"{name}/target"] = target
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(call(kind, net, given)["out"], target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    family.tensors[f"{name}/after"] = flat(net.parameters()).detach().clone()
    family.tensors[f"{name}/losses"] = torch.stack(losses)
    family.counts[name] = 1


def cases():
    family = Family()
    choices = [("", "l2"), ("", "bi"), ("", "bf", "one"), ("", "nobias"), ("", "state")]
    for kind in ("lstm", "gru"):
        for chosen in itertools.product(*choices):
            case(family, kind, [c for c in chosen if c])
        case(family, kind, ["large", "state"], sizes=(3, 8, 5, 64))
        for options in (["l2", "bi", "state"], ["bf"]):
            case(family, kind, options, rounded=True)
        training(family, kind, ["l2", "bi", "state"])
    for nonlinearity in ([], ["relu"]):
        for chosen in ([], ["l2", "bi", "state"], ["nobias", "bf"], ["one", "state"]):
            case(family, "rnn", [*chosen, *nonlinearity])
    for kind in ("lstmcell", "grucell", "rnncell"):
        for chosen in itertools.product(("", "one"), ("", "nobias"), ("", "state")):
            case(family, kind, [c for c in chosen if c])
    case(family, "rnncell", ["state", "relu"])
    for chosen in itertools.product(("", "l2"), ("", "bi"), ("", "state")):
        case(family, "lstm", [*[c for c in chosen if c], "proj"])
    for chosen in (["bf", "nobias"], ["one", "state"]):
        case(family, "lstm", [*chosen, "proj"])
    case(family, "lstm", ["l2", "bi", "state", "proj"], rounded=True)
    training(family, "lstm", ["l2", "bi", "state", "proj"])
    return family
