"""Golden cases of movement (row O6): of vectors, matrices and more axes, of views, of empty tensors,
of one element, for NaN, Inf and -0, of integers and halves.

Attributes are numbers: a list is `a0`, `a1`, ..., and a second list is `b0`, `b1`, ...
"""
import torch
import torch.nn.functional as F

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1e30, -1e-30]


def lists(first, second=()):
    return {**{f"a{i}": n for i, n in enumerate(first)}, **{f"b{i}": n for i, n in enumerate(second)}}


def split_lists(attributes):
    pick = lambda letter: [attributes[k] for k in sorted(attributes) if k[0] == letter]
    return pick("a"), pick("b")


def listed(function):
    """function(x, first list, second list)"""
    return lambda x, **attributes: function(x, *split_lists(attributes))


def torch_pad(x, before, after, mode, value=0.0):
    # The amounts of torch's pad begin with the last axis.
    amounts = [n for pair in zip(reversed(before), reversed(after)) for n in pair]
    if mode == "constant":
        return F.pad(x, amounts, value=value)
    # torch's reflect and replicate modes pad only the last axes and require two leading axes.
    return F.pad(x[None, None], amounts, mode=mode)[0, 0]


def sliced(x, axis, start, stop, step):
    if step > 0:
        index = [slice(None)] * x.dim()
        index[axis] = slice(start, stop, step)
        return x[tuple(index)]
    places = list(range(x.shape[axis]))[slice(start, stop, step)]
    return x.index_select(axis, torch.tensor(places, dtype=torch.int64))


def strided(x, steps, _):
    for axis, step in enumerate(steps):
        places = torch.tensor(list(range(x.shape[axis]))[::step], dtype=torch.int64)
        x = x.index_select(axis, places)
    return x


def shrunk(x, start, stop):
    return x[tuple(slice(a, b) for a, b in zip(start, stop))]


def parts(function):
    """One part of several. `part` is its number."""
    return lambda x, part, **attributes: function(x, **attributes)[part]


# name: function, per rank 1 and 2 the attributes to call it with
OPS = {
    "reshape": (listed(lambda x, a, _: x.reshape(a)), [lists([2, -1])], [lists([3, 4])]),
    "flatten": (lambda x: x.flatten(), [{}], [{}]),
    "unflatten": (lambda x, axis, **a: x.unflatten(axis, split_lists(a)[0]),
                  [{"axis": 0, **lists([-1, 2])}], [{"axis": -1, **lists([2, 3])}]),
    "permute": (listed(lambda x, a, _: x.permute(a)), [lists([0])], [lists([1, 0])]),
    "transpose": (lambda x, p, q: x.transpose(p, q), [{"p": 0, "q": 0}], [{"p": 0, "q": -1}]),
    "expand": (listed(lambda x, a, _: x.expand(a)), [lists([3, -1])], [lists([2, -1, 6])]),
    "squeeze": (lambda x: x.squeeze(), [{}], [{}]),
    "unsqueeze": (lambda x, axis: x.unsqueeze(axis), [{"axis": -1}], [{"axis": 1}]),
    "narrow": (lambda x, axis, start, length: x.narrow(axis, start, length),
               [{"axis": 0, "start": 1, "length": 4}], [{"axis": 1, "start": 2, "length": 3}]),
    "shrink": (listed(shrunk), [lists([1], [4])], [lists([0, 2], [2, 5])]),
    "slice": (sliced, [{"axis": 0, "start": 1, "stop": 6, "step": 2},
                       {"axis": 0, "start": -1, "stop": 0, "step": -2}],
              [{"axis": 1, "start": -5, "stop": 6, "step": 3},
               {"axis": 0, "start": 1, "stop": -9, "step": -1}]),
    "stride": (listed(strided), [lists([2]), lists([-3])], [lists([2, -1]), lists([1, 4])]),
    "flip": (listed(lambda x, a, _: x.flip(a)), [lists([0])], [lists([0, 1]), lists([-1])]),
    "roll": (listed(lambda x, a, b: x.roll(a, b)), [lists([2], [0]), lists([-8], [0])],
             [lists([1, 2], [0, 1])]),
    "roll_all": (lambda x, shift: x.roll(shift), [{"shift": 1}], [{"shift": -4}]),
    "repeat": (listed(lambda x, a, _: x.repeat(a)), [lists([2]), lists([2, 3])], [lists([2, 1, 2])]),
    "tile": (listed(lambda x, a, _: x.tile(a)), [lists([3])], [lists([2])]),
    "repeat_interleave": (lambda x, count, axis: x.repeat_interleave(count, axis),
                          [{"count": 3, "axis": 0}], [{"count": 2, "axis": 1}]),
    "unfold": (lambda x, axis, size, step: x.unfold(axis, size, step),
               [{"axis": 0, "size": 3, "step": 1}, {"axis": 0, "size": 2, "step": 3}],
               [{"axis": 1, "size": 4, "step": 2}]),
    "pad": (lambda x, value, **a: torch_pad(x, *split_lists(a), "constant", value),
            [{"value": 1.5, **lists([2], [1])}], [{"value": 0, **lists([1, 0], [0, 2])}]),
    "pad_reflect": (listed(lambda x, a, b: torch_pad(x, a, b, "reflect")),
                    [lists([2], [3])], [lists([1, 2], [0, 3])]),
    "pad_replicate": (listed(lambda x, a, b: torch_pad(x, a, b, "replicate")),
                      [lists([2], [3])], [lists([1, 2], [0, 3])]),
    "split": (parts(lambda x, size, axis: x.split(size, axis)),
              [{"part": 1, "size": 4, "axis": 0}], [{"part": 2, "size": 2, "axis": 1}]),
    "split_sizes": (parts(lambda x, axis, **a: x.split(split_lists(a)[0], axis)),
                    [{"part": 0, "axis": 0, **lists([4, 2])}], [{"part": 1, "axis": 1, **lists([1, 0, 5])}]),
    "chunk": (parts(lambda x, count, axis: x.chunk(count, axis)),
              [{"part": 1, "count": 4, "axis": 0}], [{"part": 0, "count": 4, "axis": 1}]),
}
JOINING = {
    "concat": lambda *tensors, axis: torch.cat(tensors, axis),
    "stack": lambda *tensors, axis: torch.stack(tensors, axis),
}


def of_one(family, op, function, vectors, matrices):
    case = lambda x, attributes, views=None: family.case(op, function, [x], attributes, views)
    halves = [torch.float16, torch.bfloat16]
    for attributes in vectors:
        case(numbers((6,), -3, 3), attributes)
    for attributes in matrices:
        case(numbers((2, 6), -3, 3), attributes)
    matrix = matrices[0]
    case(torch.tensor(SPECIAL[:6]), vectors[0])
    case(numbers((6, 2), -3, 3), matrix, {0: "t"})
    case(numbers((2, 8), -3, 3), matrix, {0: "slice"})
    case(numbers((2, 6), -3, 3, torch.float64), matrix)
    for half in halves:
        case(numbers((2, 6), -3, 3, half), matrix)
    # torch's pad supports integers only in the constant mode.
    if op not in ("pad_reflect", "pad_replicate"):
        case(integers((2, 6), -9, 9), matrix)
        case(integers((2, 6), 0, 1, torch.bool), matrix)


def joining(family, op, function):
    case = lambda tensors, axis, views=None: family.case(op, function, tensors, {"axis": axis}, views)
    more = 0 if op == "stack" else 1
    case([numbers((5,), -3, 3), numbers((5 + more,), -3, 3, salt=1)], 0)
    case([torch.tensor(SPECIAL), torch.tensor(SPECIAL).flip(0), torch.tensor(SPECIAL)], 0)
    case([numbers((2, 3), -3, 3), numbers((2, 3 + more), -3, 3), numbers((2, 3), 0, 1)], 1)
    case([numbers((3, 2), -3, 3), numbers((2, 3), -3, 3)], -1, {0: "t"})
    case([numbers((2, 5), -3, 3), numbers((2, 3), -3, 3)], 0, {0: "slice"})
    case([numbers((0, 3), -3, 3), numbers((2 * more, 3), -3, 3)], 0)
    case([numbers((1,), -3, 3)], 0)
    case([integers((2, 3), -5, 5), integers((2, 3), -5, 5, salt=1)], 1)
    case([integers((2, 3), -5, 5), numbers((2, 3), -3, 3)], 0)
    case([integers((2, 3), 0, 1, torch.bool), integers((2, 3), 0, 9, torch.uint8)], 0)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        case([numbers((2, 3), -3, 3, dtype), numbers((2, 3), -3, 3, dtype, salt=1)], 0)


def empty(family):
    nothing = numbers((0, 3), -3, 3)
    calls = {"reshape": lists([3, 0]), "flatten": {}, "permute": lists([1, 0]), "flip": lists([0]),
             "squeeze": {}, "unsqueeze": {"axis": 0}, "repeat": lists([2, 2]), "roll": lists([1], [0]),
             "transpose": {"p": 0, "q": 1}, "narrow": {"axis": 1, "start": 1, "length": 2},
             "stride": lists([2, 2]), "tile": lists([2]), "slice": {"axis": 1, "start": 0, "stop": 3, "step": 2},
             "shrink": lists([0, 1], [0, 3]), "expand": lists([2, 0, 3]),
             "repeat_interleave": {"count": 2, "axis": 0}, "split": {"part": 0, "size": 2, "axis": 1}}
    for op, attributes in calls.items():
        family.case(op, OPS[op][0], [nothing], attributes)


def cases():
    family = Family()
    for op, row in OPS.items():
        of_one(family, op, *row)
    empty(family)
    for op, function in JOINING.items():
        joining(family, op, function)
    return family
