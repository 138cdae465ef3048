"""Golden cases of products (row O8): vectors, matrices, batches; dot, outer, bmm; einsum."""
import torch

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
EQUATIONS = {
    "matrices": ("ij,jk->ik", [(3, 4), (4, 2)]), "turned": ("ij,kj->ki", [(3, 4), (2, 4)]),
    "heads": ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 3, 4)]),
    "implicit": ("ba,cb", [(3, 4), (2, 3)]), "trace": ("ii", [(4, 4)]),
    "diagonal": ("iji->ji", [(3, 2, 3)]), "ellipsis": ("...ij,jk->...ik", [(2, 3, 4), (4, 2)]),
    "three": ("ij,jk,k->i", [(3, 4), (4, 2), (2,)]), "outer": ("i,j->ji", [(3,), (4,)]),
    "sums": ("ijk->j", [(2, 3, 4)]),
}
# The equation's number goes with a case, since attributes are numbers.
NAMES = list(EQUATIONS)


def einsum(*operands, equation):
    return torch.einsum(EQUATIONS[NAMES[equation]][0], *operands)


def cases():
    family = Family()
    shapes = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((3, 4), (4, 2)), ((2, 3, 4), (4, 2)),
              ((3, 4), (2, 4, 2)), ((2, 3, 4), (2, 4, 2)), ((2, 1, 3, 4), (2, 4, 2)), ((1, 1), (1, 1)),
              ((3, 0), (0, 2)), ((0, 4), (4, 2))]
    for a, b in shapes:
        family.case("matmul", torch.matmul, [numbers(a, -2, 2), numbers(b, -2, 2, salt=1)])
    x, y = numbers((3, 4), -2, 2), numbers((4, 2), -2, 2, salt=1)
    family.case("matmul", torch.matmul, [x, numbers((4, 3), -2, 2)], None, {0: "t", 1: "t"})
    family.case("matmul", torch.matmul, [numbers((3, 6), -2, 2), y], None, {0: "slice"})
    strange = torch.tensor([[NAN, 1.0], [INF, -0.0], [1e30, -INF]])
    family.case("matmul", torch.matmul, [strange, torch.tensor([[1.0, 0.0], [2.0, 1e30]])])
    family.case("matmul", torch.matmul, [integers((3, 4), -9, 9), integers((4, 2), -9, 9, salt=1)])
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        family.case("matmul", torch.matmul, [x.to(dtype), y.to(dtype)])
    for size in (5, 1, 0):
        a, b = numbers((size,), -2, 2), numbers((size,), -2, 2, salt=1)
        family.case("dot", torch.dot, [a, b])
        family.case("outer", torch.outer, [a, numbers((3,), -2, 2)])
    a, b = integers((5,), -9, 9), integers((5,), -9, 9, salt=1)
    family.case("dot", torch.dot, [a, b])
    family.case("outer", torch.outer, [a, b])
    for dtype in (torch.float64, torch.float16):
        a, b = numbers((5,), -2, 2, dtype), numbers((5,), -2, 2, dtype, 1)
        family.case("dot", torch.dot, [a, b])
        family.case("outer", torch.outer, [a, b])
    odd = torch.tensor([NAN, INF, -0.0, 1e30])
    family.case("dot", torch.dot, [odd, torch.tensor([0.0, 1.0, 1.0, 2.0])])
    family.case("outer", torch.outer, [odd, torch.tensor([0.0, -1.0])])
    for a, b in (((2, 3, 4), (2, 4, 2)), ((1, 1, 1), (1, 1, 1)), ((0, 3, 4), (0, 4, 2)),
                 ((2, 3, 0), (2, 0, 2))):
        family.case("bmm", torch.bmm, [numbers(a, -2, 2), numbers(b, -2, 2, salt=1)])
    family.case("bmm", torch.bmm, [integers((2, 3, 4), -9, 9), integers((2, 4, 2), -9, 9)])
    family.case("bmm", torch.bmm, [numbers((2, 3, 4), -2, 2, torch.float64),
                                   numbers((2, 4, 2), -2, 2, torch.float64)])
    for number, name in enumerate(NAMES):
        operands = EQUATIONS[name][1]
        inputs = [numbers(shape, -2, 2, salt=i) for i, shape in enumerate(operands)]
        family.case("einsum", einsum, inputs, {"equation": number})
        if name in ("matrices", "trace", "three"):
            family.case("einsum", einsum, [t.double() for t in inputs], {"equation": number})
            family.case("einsum", einsum, [integers(shape, -9, 9) for shape in operands],
                        {"equation": number})
    family.case("einsum", einsum, [numbers((4, 3), -2, 2), y], {"equation": 0}, {0: "t"})
    family.case("einsum", einsum, [numbers((3, 0), -2, 2), numbers((0, 2), -2, 2)], {"equation": 0})
    family.case("einsum", einsum, [numbers((3, 1), -2, 2), y], {"equation": 0})
    return family
