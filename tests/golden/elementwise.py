"""Golden cases of the elementwise operations (rows O1 to O3): each with and without broadcasting, empty, of
size 1, through views, at ties, with large values, NaN, Inf and -0, of integers and halves.
"""
import torch
import torch.nn.functional as F

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 3.0, -3.0]
LARGE = [-1e30, -1e4, -100.0, -30.0, 30.0, 100.0, 1e4, 1e30]
TIES = [-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 3.0, -3.0, 6.0]
HALVES = [torch.float16, torch.bfloat16]



def of_vectors(function):
    """Repeats the input so that PyTorch computes all of it by vectors: its loops over the remainder give NaN a
    gradient of 1."""
    return lambda x, *attributes: function(x.reshape(-1).repeat(64), *attributes)[
        : x.numel()].reshape(x.shape)


# name: function, domain, whether it takes integers
UNARY = {
    "neg": (torch.neg, -3, 3, True), "abs": (torch.abs, -3, 3, True),
    "sign": (torch.sign, -3, 3, True), "square": (torch.square, -3, 3, True),
    "reciprocal": (torch.reciprocal, 0.2, 3, True), "sqrt": (torch.sqrt, 0.01, 9, True),
    "rsqrt": (torch.rsqrt, 0.1, 9, True), "exp": (torch.exp, -6, 6, True),
    "exp2": (torch.exp2, -6, 6, True), "expm1": (torch.expm1, -3, 3, True),
    "log": (torch.log, 0.01, 9, True), "log2": (torch.log2, 0.01, 9, True),
    "log1p": (torch.log1p, -0.9, 9, True), "sin": (torch.sin, -9, 9, True),
    "cos": (torch.cos, -9, 9, True), "tan": (torch.tan, -1.4, 1.4, True),
    "asin": (torch.asin, -0.95, 0.95, True), "acos": (torch.acos, -0.95, 0.95, True),
    "atan": (torch.atan, -9, 9, True), "sinh": (torch.sinh, -3, 3, True),
    "cosh": (torch.cosh, -3, 3, True), "tanh": (torch.tanh, -4, 4, True),
    "sigmoid": (torch.sigmoid, -9, 9, True), "erf": (torch.erf, -3, 3, True),
    "floor": (torch.floor, -5, 5, True), "ceil": (torch.ceil, -5, 5, True),
    "round": (torch.round, -5, 5, True), "isnan": (torch.isnan, -3, 3, True),
    "isinf": (torch.isinf, -3, 3, True), "logical_not": (torch.logical_not, -3, 3, True),
    "relu": (torch.relu, -3, 3, True),
    # PyTorch's f32 result has only four digits on some processors.
    "gelu": (lambda x: F.gelu(x.double()).to(x.dtype), -3, 3, False),
    "silu": (F.silu, -6, 6, False), "mish": (F.mish, -6, 6, False),
    "hardswish": (of_vectors(F.hardswish), -5, 5, False),
}
# Domains for halves if the gradient is computed from the rounded result: they avoid cancellation.
OF_HALVES = {"tanh": (-0.75, 0.75)}
# name: function, attributes
SHAPED = {
    "leaky_relu": (lambda x, slope: F.leaky_relu(x, slope), {"slope": 0.125}),
    "elu": (lambda x, alpha: of_vectors(F.elu)(x, alpha), {"alpha": 1.5}),
    "gelu_tanh": (lambda x: F.gelu(x.double(), approximate="tanh").to(x.dtype), {}),
    "softplus": (lambda x, beta, threshold: F.softplus(x, beta, threshold),
                 {"beta": 2.0, "threshold": 3.0}),
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "maximum": torch.maximum, "minimum": torch.minimum, "mod": torch.remainder,
    "fmod": torch.fmod, "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "atan2": torch.atan2, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "eq": torch.eq, "ne": torch.ne, "logical_and": torch.logical_and,
    "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
}
DIVIDES = {"div", "mod", "fmod", "floor_div"}


def unary(family, op, function, low, high, takes_integers, attributes=None):
    attributes = attributes or {}
    case = lambda x, views=None: family.case(op, function, [x], attributes, views)
    case(numbers((7,), low, high))
    case(numbers((), low, high))
    case(numbers((0, 3), low, high))
    case(numbers((3, 4), low, high), {0: "t"})
    case(numbers((2, 5), low, high), {0: "slice"})
    case(torch.tensor(SPECIAL + LARGE + TIES))
    case(numbers((5,), low, high, torch.float64))
    for half in HALVES:
        case(numbers((7,), *OF_HALVES.get(op, (low, high)), half))
    if takes_integers:
        case(torch.tensor([-3, -1, 0, 1, 2, 5], dtype=torch.int32))
        case(torch.tensor([0, 1, 2, 200], dtype=torch.uint8)[: 4 if op not in ("neg", "square") else 3])


def binary(family, op, function):
    case = lambda a, b, views=None: family.case(op, function, [a, b], None, views)
    low = 0.1 if op == "pow" else -3
    left = lambda shape, dtype=torch.float32: numbers(shape, low, 3, dtype)
    right = lambda shape, dtype=torch.float32: numbers(shape, 0.3 if op in DIVIDES else -3, 3, dtype, 1)
    case(left((7,)), right((7,)))
    case(left((3, 1)), right((1, 4)))
    case(left((2, 3)), right(()))
    case(left((0, 3)), right((1, 3)))
    case(left((1,)), right((1,)))
    case(left((3, 4)), right((4, 3)), {0: "t"})
    case(left((2, 5)), right((2, 3)), {0: "slice"})
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    case(torch.tensor([a for a, _ in pairs]), torch.tensor([b for _, b in pairs]))
    case(torch.tensor([1e30, -1e30, 1e30, 2.5, -2.5]), torch.tensor([1e10, 7.0, -0.5, 1e30, 0.5]))
    case(left((5,), torch.float64), right((5,), torch.float64))
    for half in HALVES:
        case(left((7,), half), right((7,), half))
    a, b = integers((9,), -9, 9), integers((9,), 1, 5, torch.int64, 1)
    case(a, b)
    case(a.to(torch.int32), b)
    case(a, right((9,)))
    if op != "pow":
        case(a, torch.where(b == 2, torch.tensor(-3), b))
    if op in ("add", "mul", "div", "maximum", "atan2") or op.startswith("logical") or op in ("lt", "eq"):
        case(a > 0, b > 2)
    if op != "sub":  # PyTorch refuses bool there
        case(a > 0, b)


def bounds(family):
    function = lambda x, low=None, high=None: torch.clamp(x, low, high)
    x = torch.tensor(SPECIAL + TIES)
    for attributes in ({"low": -1.5, "high": 2.5}, {"low": -1.5}, {"high": 2.5}, {"low": 2, "high": -1}):
        family.case("clamp", function, [x], attributes)
    for attributes in ({"low": -2, "high": 3}, {"low": -1.5, "high": 2.5}):
        family.case("clamp", function, [integers((9,), -9, 9)], attributes)
    family.case("clamp", function, [numbers((0, 2), -3, 3)], {"low": -1, "high": 1})
    family.case("clamp", function, [numbers((3, 4), -3, 3)], {"low": -1, "high": 1}, {0: "t"})
    for dtype in HALVES + [torch.float64]:
        family.case("clamp", function, [numbers((7,), -3, 3, dtype)], {"low": -1, "high": 1})
    tensors = lambda x, low, high: torch.clamp(x, low, high)
    family.case("clamp_tensors", tensors,
                [x, numbers(x.shape, -2, 1), numbers(x.shape, 0, 2, salt=1)])
    family.case("clamp_tensors", tensors,
                [numbers((3, 4), -3, 3), numbers((4,), -2, 0), torch.tensor(1.0)])
    family.case("clamp_tensors", tensors, [torch.tensor([1.0, 2.0, 3.0, 0.0]),
                                           torch.tensor([1.0, 3.0, 3.0, 2.0]),
                                           torch.tensor([2.0, 1.0, 3.0, 2.0])])
    family.case("clamp_tensors", tensors,
                [numbers((5, 0), -3, 3), numbers((1,), -1, 0), numbers((1,), 0, 1)])
    family.case("clamp_tensors", tensors, [integers((9,), -9, 9), torch.tensor(-2), torch.tensor(5)])
    family.case("clamp_tensors", tensors, [numbers((4, 3), -3, 3), numbers((3, 4), -2, 0),
                                           numbers((3, 4), 0, 2)], None, {0: "t"})


def ternary(family):
    functions = {
        "mulacc": (lambda a, b, c: a * b + c, {}),
        "lerp": (torch.lerp, {}),
        "addcmul": (lambda x, a, b, value: torch.addcmul(x, a, b, value=value), {"value": -1.5}),
        "addcdiv": (lambda x, a, b, value: torch.addcdiv(x, a, b, value=value), {"value": 0.5}),
    }
    for op, (function, attributes) in functions.items():
        draw = lambda shape, salt, dtype=torch.float32: numbers(
            shape, 0.2 if salt == 2 else -2, 2, dtype, salt)
        case = lambda shapes, dtype=torch.float32, views=None: family.case(
            op, function, [draw(s, i, dtype) for i, s in enumerate(shapes)], attributes, views)
        case([(7,), (7,), (7,)])
        case([(3, 1), (1, 4), (4,)])
        case([(), (5,), ()])
        case([(0, 3), (1, 3), (3,)])
        case([(1,), (1,), (1,)])
        case([(3, 4), (4, 3), (4, 1)], views={0: "t"})
        case([(2, 5), (2, 3), (3,)], views={0: "slice"})
        for dtype in HALVES + [torch.float64]:
            case([(7,), (7,), (7,)], dtype)
        special = torch.tensor(SPECIAL)
        family.case(op, function, [special, special.flip(0), special.roll(2)], attributes)
        family.case(op, function, [torch.tensor([1e30, -1e30, 3.0]), torch.tensor([1e5, -1e30, 1e20]),
                                   torch.tensor([1e30, 0.5, 0.25])], attributes)
        if op in ("mulacc", "addcmul"):
            whole = [integers((5,), -9, 9, torch.int64, i) for i in range(3)]
            family.case(op, function, whole, {"value": 3} if attributes else {})
    flags = integers((3, 4), 0, 1) > 0
    where = lambda c, a, b: torch.where(c, a, b)
    family.case("where", where, [flags, numbers((3, 4), -2, 2), numbers((3, 4), 5, 6)])
    family.case("where", where, [flags, numbers((4,), -2, 2), numbers((3, 1), 5, 6)])
    family.case("where", where, [flags, integers((3, 4), -5, 5), numbers((3, 4), 5, 6)])
    family.case("where", where, [flags[:0], numbers((0, 4), -2, 2), numbers((4,), 5, 6)])
    family.case("where", where, [flags, numbers((4, 3), -2, 2), numbers((3, 4), 5, 6)], None, {1: "t"})
    family.case("where", where, [torch.tensor([True, False] * 4), torch.tensor(LARGE),
                                 torch.tensor([NAN] * 8)])
    for half in HALVES:
        family.case("where", where, [flags, numbers((3, 4), -2, 2, half), numbers((3, 4), 5, 6, half)])


def cases():
    family = Family()
    for op, row in UNARY.items():
        unary(family, op, *row)
    for op, (function, attributes) in SHAPED.items():
        unary(family, op, function, -4, 4, False, attributes)
    for op, function in BINARY.items():
        binary(family, op, function)
    bounds(family)
    ternary(family)
    return family
