"""Golden cases of the operations of networks: linear, embedding, layer norm, losses, conversions.
"""
import torch
import torch.nn.functional as F

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
HALVES = [torch.float16, torch.bfloat16]
REDUCTIONS = ["none", "mean", "sum"]


def linear(family):
    def case(shapes, dtype=torch.float32, views=None):
        inputs = [numbers(s, -2, 2, dtype, salt=i) for i, s in enumerate(shapes)]
        family.case("linear", F.linear, inputs, None, views)
    case([(3, 5), (4, 5), (4,)])
    case([(3, 5), (4, 5)])
    case([(2, 3, 5), (4, 5), (4,)])
    case([(5,), (4, 5), (4,)])
    case([(1, 1), (1, 1), (1,)])
    case([(0, 5), (4, 5), (4,)])
    case([(3, 0), (4, 0), (4,)])
    case([(5, 3), (5, 4), (4,)], views={0: "t", 1: "t"})
    case([(3, 7), (4, 5), (4,)], views={0: "slice"})
    for dtype in HALVES + [torch.float64]:
        case([(3, 5), (4, 5), (4,)], dtype)
    x = torch.tensor([[1e30, 1.0], [NAN, 0.0], [INF, -1.0]])
    family.case("linear", F.linear, [x, torch.tensor([[2.0, 1.0], [0.5, -1.0]]),
                                     torch.tensor([1.0, -1.0])])


def embedding(family):
    def case(ids, weight, views=None):
        family.case("embedding", lambda w, i: F.embedding(i, w), [weight, ids], None, views)
    case(torch.tensor([2, 0, 2, 1]), numbers((5, 3), -2, 2))
    case(torch.tensor([[2, 0], [4, 4]]), numbers((5, 3), -2, 2))
    case(torch.tensor(3), numbers((5, 3), -2, 2))
    case(torch.zeros((0,), dtype=torch.int64), numbers((5, 3), -2, 2))
    case(torch.tensor([0, 0, 0]), numbers((1, 1), -2, 2))
    case(torch.tensor([1, 2], dtype=torch.int32), numbers((3, 5), -2, 2), {0: "t"})
    case(torch.tensor([1, 0]), torch.tensor([[NAN, -0.0], [INF, 1e30]]))
    for dtype in HALVES + [torch.float64]:
        case(torch.tensor([2, 0, 2, 1]), numbers((5, 3), -2, 2, dtype))


def layer_norm(family):
    def case(shape, axes, dtype=torch.float32, weighted=True, views=None, x=None, eps=1e-5):
        inputs = [numbers(shape, -2, 3, dtype) if x is None else x]
        size = tuple(shape[len(shape) - axes:])
        if weighted:
            inputs += [numbers(size, 0.5, 2, dtype, 1), numbers(size, -1, 1, dtype, 2)]
        # PyTorch's f32 gradients have only four digits here because of cancellation.
        function = lambda x, *rest, axes, eps: F.layer_norm(
            x.double(), x.shape[x.dim() - axes:], *[t.double() for t in rest], eps=eps).to(x.dtype)
        family.case("layer_norm", function, inputs, {"axes": axes, "eps": eps}, views)
    case((3, 5), 1)
    case((3, 5), 1, weighted=False)
    case((2, 3, 4), 2)
    case((2, 3, 4), 1)
    case((5,), 1)
    case((0, 5), 1)
    case((3, 2), 1, eps=0.5)
    case((4, 4), 1, views={0: "t"})
    case((3, 5), 1, x=numbers((3, 5), -1, 1) + 3)
    case((2, 4), 1, x=torch.tensor([[1e8, 1e8, 2e8, 0.0], [NAN, 1.0, 2.0, 3.0]]))
    for dtype in HALVES + [torch.float64]:
        case((3, 5), 1, dtype)


def losses(family):
    def mse(a, b, reduction):
        return F.mse_loss(a, b, reduction=REDUCTIONS[reduction])
    for reduction in range(3):
        family.case("mse_loss", mse, [numbers((3, 4), -2, 2), numbers((3, 4), -2, 2, salt=1)],
                    {"reduction": reduction})
        family.case("mse_loss", mse, [numbers((0, 4), -2, 2), numbers((0, 4), -2, 2, salt=1)],
                    {"reduction": reduction})
    family.case("mse_loss", mse, [numbers((1,), -2, 2), numbers((1,), -2, 2, salt=1)], {"reduction": 1})
    family.case("mse_loss", mse, [numbers((4, 3), -2, 2), numbers((3, 4), -2, 2, salt=1)],
                {"reduction": 1}, {0: "t"})
    family.case("mse_loss", mse, [torch.tensor([1e19, NAN, INF, 1.0]), torch.tensor([-1e19, 0, 1, 1])],
                {"reduction": 0})
    for dtype in HALVES + [torch.float64]:
        family.case("mse_loss", mse, [numbers((3, 4), -2, 2, dtype), numbers((3, 4), -2, 2, dtype, 1)],
                    {"reduction": 1})

    def cross_entropy(x, labels, reduction):
        return F.cross_entropy(x, labels.long(), reduction=REDUCTIONS[reduction])
    for reduction in range(3):
        family.case("cross_entropy", cross_entropy,
                    [numbers((4, 5), -3, 3), torch.tensor([0, 4, 2, 2])], {"reduction": reduction})
    family.case("cross_entropy", cross_entropy, [numbers((1, 1), -3, 3), torch.tensor([0])],
                {"reduction": 1})
    family.case("cross_entropy", cross_entropy,
                [numbers((5, 4), -3, 3), torch.tensor([0, 4, 2, 2], dtype=torch.int32)],
                {"reduction": 1}, {0: "t"})
    large = torch.tensor([[1e4, -1e4, 0.0], [1e30, 1e30, -1e30], [-INF, 0.0, 1.0]])
    family.case("cross_entropy", cross_entropy, [large, torch.tensor([0, 1, 2])], {"reduction": 0})
    for dtype in HALVES + [torch.float64]:
        family.case("cross_entropy", cross_entropy,
                    [numbers((4, 5), -3, 3, dtype), torch.tensor([0, 4, 2, 2])], {"reduction": 1})


def conversions(family):
    def case(source, target, x, views=None):
        family.case(f"to_{target}", lambda x: x.to(getattr(torch, target)), [x.to(source)], None, views)
    values = torch.tensor([0.0, -0.0, 1.0, 2.5, 3.75, 100.0, 127.0])
    signs = torch.tensor([-3.5, -1.0, 0.0, 1e4, 6e4, 0.1, -0.3])
    for target in ["float16", "bfloat16", "float32", "float64"]:
        for source in [torch.float16, torch.bfloat16, torch.float32, torch.float64]:
            case(source, target, signs)
        case(torch.float32, target, torch.tensor([NAN, INF, -INF, 1e30, -1e30, 1e-30, 65520.0]))
        case(torch.int64, target, torch.tensor([0, 1, -1, 2049, 16777217]))
        case(torch.bool, target, torch.tensor([True, False]))
    for target in ["int32", "int64", "uint8", "bool"]:
        for source in [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.uint8, torch.bool]:
            case(source, target, values)
        case(torch.float32, target, values[:0])


def cases():
    family = Family()
    linear(family)
    embedding(family)
    layer_norm(family)
    losses(family)
    conversions(family)
    return family
