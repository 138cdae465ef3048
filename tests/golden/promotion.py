"""Golden cases of promotion: every pair of dtypes as tensors, as a tensor and a tensor without axes,
and every dtype with numbers, through additions, divisions and where. They have values and dtypes only.
"""
import torch

from golden import DTYPES, Family

VALUES = {True: [True, False, True], False: [1, 2, 3]}


def array(dtype, salt=0):
    values = VALUES[dtype == torch.bool]
    return torch.tensor(values[salt:] + values[:salt], dtype=dtype)


def point(dtype):
    return torch.tensor(True if dtype == torch.bool else 2, dtype=dtype)


def choose(c, a, b):
    return torch.where(c, a, b)


class Values(Family):
    """Keeps cases without gradients."""

    def case(self, op, function, inputs):
        super().case(op, lambda *tensors: function(*tensors).detach(), inputs)


def cases():
    family = Values()
    mask = torch.tensor([True, False, True])
    for a in DTYPES:
        for b in DTYPES:
            pairs = {"tensors": (array(a), array(b, 1)), "point_right": (array(a), point(b)),
                     "point_left": (point(a), array(b)), "points": (point(a), point(b))}
            for name, (x, y) in pairs.items():
                family.case(f"add_{name}", torch.add, [x, y])
            family.case("where_tensors", choose, [mask, array(a), array(b, 1)])
            family.case("where_point", choose, [mask, array(a), point(b)])
        ones = array(a, 1) if a != torch.bool else torch.tensor([True, True, True])
        for b in DTYPES:
            y = ones if a == b else point(b)
            family.case("div_point", torch.div, [array(a), y])
        for name, number in (("int", 3), ("float", 2.5), ("bool", True)):
            family.case(f"add_{name}", lambda x, n=number: x + n, [array(a)])
            family.case(f"add_{name}_left", lambda x, n=number: n + x, [array(a)])
            family.case(f"div_{name}", lambda x, n=number: x / n, [array(a)])
            family.case(f"add_point_{name}", lambda x, n=number: x + n, [point(a)])
            family.case(f"where_{name}", lambda c, x, n=number: torch.where(c, x, n),
                        [mask, array(a)])
    return family
