"""Golden cases of reductions (rows O4 and O5): over all axes, one and two, kept and not, of views,
of empty tensors, of one element, at ties, for large values, NaN, Inf and -0, of integers and halves.

The attributes are `axis` and `axis2` (none means all axes), `keepdim`, and those specific to the operation.
"""
import torch

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
SPECIAL = [[1.0, NAN, 2.0, -1.0], [INF, 1.0, -INF, 0.0], [-0.0, -0.0, -0.0, -0.0], [INF, INF, 1.0, 2.0]]
LARGE = [[1e18, -1e18, 1e15, 1e15], [100.0, 300.0, -200.0, 299.0], [1e-30, 1e-30, -1e-30, 3e-30],
         [-1e4, -1e4, -1e4, -2e4]]
TIES = [[3.0, 1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [-1.0, -5.0, 4.0, -5.0]]
ZEROS = [[2.0, 0.0, 3.0, 4.0], [0.0, 5.0, 0.0, 2.0], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
ALL_HALVES = [torch.float16, torch.bfloat16]


def axes_of(axis, axis2):
    return None if axis is None else axis if axis2 is None else (axis, axis2)


def over(function):
    """A reduction of torch by `dim`, where that may be missing."""
    def call(x, axis=None, axis2=None, keepdim=0, **more):
        dim = axes_of(axis, axis2)
        if dim is None:
            dim = tuple(range(x.dim()))
        return function(x, dim=dim, keepdim=bool(keepdim), **more)
    return call


def extremum(whole, along, several):
    def call(x, axis=None, axis2=None, keepdim=0):
        if axis is None:
            return whole(x)
        if axis2 is None:
            return along(x, dim=axis, keepdim=bool(keepdim)).values
        return several(x, dim=(axis, axis2), keepdim=bool(keepdim))
    return call


def prod(x, axis=None, axis2=None, keepdim=0):
    if axis is None:
        return torch.prod(x)
    if axis2 is None:
        return torch.prod(x, dim=axis, keepdim=bool(keepdim))
    return torch.prod(torch.prod(x, dim=axis2, keepdim=True), dim=axis, keepdim=True).squeeze(
        () if keepdim else (axis, axis2))


def position(function):
    return lambda x, axis=None, keepdim=0: function(x, dim=axis, keepdim=bool(keepdim))


def spread(function):
    def call(x, axis=None, axis2=None, keepdim=0, correction=1):
        return function(x, dim=axes_of(axis, axis2), keepdim=bool(keepdim), correction=correction)
    return call


def norm(x, p=2, axis=None, axis2=None, keepdim=0):
    return torch.linalg.vector_norm(x, p, dim=axes_of(axis, axis2), keepdim=bool(keepdim))


# The result is boolean for integers too; torch returns u8 for u8.
def truth(function):
    return lambda x, axis=None, keepdim=0: (
        function(x) if axis is None else function(x, dim=axis, keepdim=bool(keepdim))).bool()


def along(function):
    return lambda x, axis: function(x, dim=axis)


# name: function, specific attributes, whether it accepts two axes, integers, empty tensors
REDUCTIONS = {
    "sum": (over(torch.sum), [{}], True, True, True),
    "mean": (over(torch.mean), [{}], True, False, True),
    "prod": (prod, [{}], True, True, True),
    "max": (extremum(torch.max, torch.max, torch.amax), [{}], True, True, False),
    "min": (extremum(torch.min, torch.min, torch.amin), [{}], True, True, False),
    "argmax": (position(torch.argmax), [{}], False, True, False),
    "argmin": (position(torch.argmin), [{}], False, True, False),
    "any": (truth(torch.any), [{}], False, True, True),
    "all": (truth(torch.all), [{}], False, True, True),
    "var": (spread(torch.var), [{}, {"correction": 0}], True, False, True),
    "std": (spread(torch.std), [{}, {"correction": 0}], True, False, True),
    "norm": (norm, [{}, {"p": 1}, {"p": 3}, {"p": 0.5}, {"p": 0}], True, False, True),
    "norm_inf": (lambda x, **a: norm(x, INF, **a), [{}], True, False, False),
    "norm_least": (lambda x, **a: norm(x, -INF, **a), [{}], True, False, False),
    "logsumexp": (over(torch.logsumexp), [{}], True, False, True),
}
ALONG = {
    "softmax": (along(torch.softmax), False),
    "log_softmax": (along(torch.log_softmax), False),
    "cumsum": (along(torch.cumsum), True),
}
# Compares values only: torch's gradient of a row of -inf is NaN, Volta's is 0.
VALUES_ONLY = lambda function: lambda x, **attributes: function(x.detach(), **attributes)


def reduction(family, op, function, own, two_axes, takes_integers, takes_nothing):
    def case(x, axes=None, views=None, f=function, number=0):
        family.case(op, f, [x], {**own[number % len(own)], **(axes or {})}, views)
    for number in range(len(own)):
        case(numbers((7,), -3, 3), number=number)
        case(numbers((3, 4), -3, 3), {"axis": 1}, number=number)
    case(numbers((), -3, 3))
    case(numbers((1,), -3, 3), {"axis": 0})
    case(numbers((3, 4), -3, 3), {"axis": 0, "keepdim": 1})
    case(numbers((3, 4), -3, 3), {"axis": 1}, {0: "t"})
    case(numbers((3, 6), -3, 3), {"axis": -1}, {0: "slice"})
    if two_axes:
        case(numbers((2, 3, 4), -3, 3), {"axis": 0, "axis2": 2, "keepdim": 1})
        case(numbers((2, 3, 4), -3, 3), {"axis": 1, "axis2": 2})
    for rows in (SPECIAL, LARGE):
        case(torch.tensor(rows), {"axis": 1}, f=VALUES_ONLY(function))
    for row in TIES:
        case(torch.tensor(row), {"axis": 0})
        case(torch.tensor(row))
    case(torch.tensor(ZEROS), {"axis": 1})
    if takes_nothing:
        case(numbers((0,), -3, 3))
        case(numbers((2, 0), -3, 3), {"axis": 1})
    case(numbers((0, 2), -3, 3), {"axis": 1})
    case(numbers((3, 4), -3, 3, torch.float64), {"axis": 1})
    for half in ALL_HALVES:
        case(numbers((3, 4), -3, 3, half), {"axis": 1})
    if takes_integers:
        for dtype in (torch.int64, torch.int32, torch.uint8):
            case(integers((3, 4), 0, 5, dtype), {"axis": 1})
        if op not in ("argmax", "argmin"):
            case(integers((3, 4), 0, 1, torch.bool), {"axis": 1})
        case(torch.tensor([], dtype=torch.int64) if takes_nothing else torch.tensor([4, 4, -7]))


def along_axis(family, op, function, takes_integers):
    case = lambda x, axis, views=None, f=function: family.case(op, f, [x], {"axis": axis}, views)
    case(numbers((7,), -3, 3), 0)
    case(numbers((3, 4), -3, 3), 1)
    case(numbers((3, 4), -3, 3), 0)
    case(numbers((2, 3, 4), -3, 3), 1)
    case(numbers((1,), -3, 3), 0)
    case(numbers((0, 3), -3, 3), 1)
    case(numbers((3, 4), -3, 3), -1, {0: "t"})
    case(numbers((3, 6), -3, 3), 1, {0: "slice"})
    case(torch.tensor(SPECIAL + [[-INF] * 4, [0.0, -INF, 1.0, -INF]]), 1, f=VALUES_ONLY(function))
    case(torch.tensor(LARGE[1:2] + LARGE[3:]), 1)
    case(torch.tensor(TIES), 1)
    case(numbers((3, 4), -3, 3, torch.float64), 1)
    # Gradients are computed from the result, which is too coarse for log_softmax in bf16.
    for half in ALL_HALVES:
        coarse = op == "log_softmax" and half == torch.bfloat16
        case(numbers((3, 4), -0.5, 0.5, half), 1, f=VALUES_ONLY(function) if coarse else function)
    if takes_integers:
        for dtype in (torch.int64, torch.int32, torch.uint8):
            case(integers((3, 4), 0, 5, dtype), 1)
        case(integers((3, 4), 0, 1, torch.bool), 1)


def cases():
    family = Family()
    for op, row in REDUCTIONS.items():
        reduction(family, op, *row)
    for op, row in ALONG.items():
        along_axis(family, op, *row)
    return family
