"""Golden cases of pooling and resizing: every option, alone and together, and gradients of gradients."""
import itertools

import torch
import torch.nn.functional as F

from golden import Family, numbers

HALVES = [torch.float16, torch.bfloat16]
NAN, INF = float("nan"), float("inf")


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def extents(**options):
    """Attributes "<name>_h" and "<name>_w" of numbers for one or both directions."""
    both = {name: pair(value) for name, value in options.items()}
    return {f"{name}_{end}": value[i] for name, value in both.items() for i, end in enumerate("hw")}


def of(attributes, name):
    return attributes[name + "_h"], attributes[name + "_w"]


def max_pool2d(x, **a):
    return F.max_pool2d(x, of(a, "kernel"), of(a, "stride"), of(a, "padding"), of(a, "dilation"),
                        bool(a["ceil"]))


def avg_pool2d(x, **a):
    return F.avg_pool2d(x, of(a, "kernel"), of(a, "stride"), of(a, "padding"), bool(a["ceil"]),
                        bool(a["include"]))


def max_pool1d(x, kernel, stride, padding, dilation, ceil):
    return F.max_pool1d(x, kernel, stride, padding, dilation, bool(ceil))


def avg_pool1d(x, kernel, stride, padding, ceil, include):
    return F.avg_pool1d(x, kernel, stride, padding, bool(ceil), bool(include))


def adaptive_avg_pool2d(x, **a):
    return F.adaptive_avg_pool2d(x, of(a, "size"))


def adaptive_avg_pool1d(x, size):
    return F.adaptive_avg_pool1d(x, size)


def interpolate(x, **a):
    bilinear = bool(a["bilinear"])
    return F.interpolate(x, size=of(a, "size") if "size_h" in a else None,
                         scale_factor=of(a, "scale") if "scale_h" in a else None,
                         mode="bilinear" if bilinear else "nearest",
                         align_corners=bool(a["aligned"]) if bilinear else None)


def gradient_of(function):
    """The gradient of an operation as a function of the gradient of its result."""
    def call(x, g, **attributes):
        leaf = x.detach().requires_grad_()
        y = function(leaf, **attributes)
        slope, = torch.autograd.grad(y, leaf, g, create_graph=True)
        return slope
    return call


def in_double(function):
    """The function computed in f64 and rounded once, the reference for f32 sums in any order."""
    def call(*tensors, **attributes):
        return function(*[t.double() for t in tensors], **attributes).to(tensors[0].dtype)
    return call


def result_shape(function, x, attributes):
    return function(x.double(), **attributes).shape


def pools(family):
    def case(x, kernel, stride=None, padding=0, dilation=1, ceil=False, dtype=torch.float32,
             values=None, views=None, twice=False):
        attributes = extents(kernel=kernel, stride=stride or kernel, padding=padding,
                             dilation=dilation) | {"ceil": int(ceil)}
        x = numbers(x, -2, 2, dtype) if values is None else values
        family.case("max_pool2d", max_pool2d, [x], attributes, views)
        if twice:
            g = numbers(result_shape(max_pool2d, x, attributes), -1, 1, dtype, 3)
            family.case("max_pool2d_gradient", gradient_of(max_pool2d), [x, g], attributes)

    # Devices that compile slowly run only the first case and those with the same structure: square images.
    case((2, 3, 8, 8), 3, 2, 1, twice=True)
    case((2, 3, 8, 6), 2, twice=True)
    case((2, 3, 7, 5), 2, twice=True)
    case((2, 3, 7, 5), 2, ceil=True, twice=True)
    case((2, 3, 7, 9), 3, 2, 1, twice=True)
    for stride, padding, dilation, ceil in itertools.product([1, 2, 3], [0, 1], [1, 2],
                                                             [False, True]):
        case((2, 2, 9, 8), 3, stride, padding, dilation, ceil,
             twice=stride == 2 and (padding == 1) == ceil)
    case((1, 2, 9, 7), (3, 2), (2, 1), (1, 0))
    case((1, 2, 9, 7), (1, 3), (1, 2), (0, 1))
    case((1, 2, 9, 7), (4, 3), (3, 2), (2, 1), (2, 1), True)
    case((1, 1, 9, 9), 2, 4)
    case((1, 1, 9, 9), 2, 4, 1, 1, True)
    case((1, 1, 5, 5), 5)
    case((1, 1, 1, 1), 1)
    case((1, 1, 1, 1), 3, 1, 1)
    case((1, 1, 4, 4), 1, 2)
    case((1, 1, 40, 40), 20, 10, 3)  # more window elements than a byte can index
    case((3, 6, 8), 2)
    case((0, 2, 6, 6), 2, twice=True)
    case((2, 3, 6, 8), 2, views={0: "t"})
    case((2, 5, 6, 8), 3, 2, 1, views={0: "slice"})
    for dtype in HALVES + [torch.float64]:
        case((2, 3, 6, 8), 2, dtype=dtype, twice=True)
        case((2, 3, 7, 8), 3, 2, 1, dtype=dtype)
    odd = torch.tensor([[[[1.0, 1.0, NAN, 2.0], [1.0, 1.0, 0.0, 1.0], [-INF, -INF, 3.0, INF],
                          [-INF, -INF, 0.0, -0.0]]]])
    case(None, 2, values=odd)
    case(None, 2, 1, values=odd)
    lowest = torch.full((1, 1, 4, 4), -INF)
    case(None, 2, values=lowest)
    case(None, 3, 2, 1, values=lowest)
    case(None, 3, 1, 1, 1, values=lowest)
    case(None, (3, 5), (2, 1), (1, 2), 2, values=torch.full((1, 1, 9, 9), -INF))
    ties = torch.tensor([[[[0.0, 1.0, 1.0, 0.0, 2.0, 2.0], [1.0, 1.0, 0.0, 1.0, 2.0, 2.0]] * 3]])
    case(None, 2, values=ties, twice=True)
    case(None, 3, 1, 1, values=ties, twice=True)


def means(family):
    def case(x, kernel, stride=None, padding=0, ceil=False, include=True, dtype=torch.float32,
             values=None, views=None, twice=False):
        attributes = extents(kernel=kernel, stride=stride or kernel, padding=padding)
        attributes |= {"ceil": int(ceil), "include": int(include)}
        x = numbers(x, -2, 2, dtype) if values is None else values
        family.case("avg_pool2d", in_double(avg_pool2d), [x], attributes, views)
        if twice:
            g = numbers(result_shape(avg_pool2d, x, attributes), -1, 1, dtype, 3)
            family.case("avg_pool2d_gradient", in_double(gradient_of(avg_pool2d)), [x, g],
                        attributes)

    case((2, 3, 8, 8), 3, 2, 1, twice=True)
    case((2, 3, 8, 6), 2, twice=True)
    case((2, 3, 7, 5), 2, twice=True)
    for stride, padding, ceil, include in itertools.product([1, 2, 3], [0, 1], [False, True],
                                                            [False, True]):
        case((2, 2, 9, 8), 3, stride, padding, ceil, include,
             twice=stride == 2 and (padding == 1) == ceil)
    case((1, 2, 9, 7), (3, 2), (2, 1), (1, 0), False, False)
    case((1, 2, 9, 7), (4, 3), (3, 2), (2, 1), True)
    case((1, 1, 9, 9), 2, 4)
    case((1, 1, 9, 9), 2, 4, 1, True, False)
    case((1, 1, 5, 5), 5)
    case((1, 1, 1, 1), 1)
    case((1, 1, 1, 1), 3, 1, 1)
    case((1, 1, 1, 1), 3, 1, 1, False, False)
    case((3, 6, 8), 2)
    case((0, 2, 6, 6), 2)
    case((2, 3, 6, 8), 2, views={0: "t"})
    case((2, 5, 6, 8), 3, 2, 1, views={0: "slice"})
    for dtype in HALVES + [torch.float64]:
        case((2, 3, 6, 8), 2, dtype=dtype, twice=True)
        case((2, 3, 7, 8), 3, 2, 1, dtype=dtype)
    odd = torch.tensor([[[[1.0, 1.0, NAN, 2.0], [1.0, 1.0, 0.0, 1.0], [-INF, INF, 3.0, INF],
                          [1.0, 2.0, 0.0, -0.0]]]])
    case(None, 2, values=odd)
    case(None, 2, 1, values=odd)


def lines(family):
    def largest(x, kernel, stride=None, padding=0, dilation=1, ceil=False, dtype=torch.float32):
        family.case("max_pool1d", max_pool1d, [numbers(x, -2, 2, dtype)],
                    dict(kernel=kernel, stride=stride or kernel, padding=padding, dilation=dilation,
                         ceil=int(ceil)))

    def mean(x, kernel, stride=None, padding=0, ceil=False, include=True, dtype=torch.float32):
        family.case("avg_pool1d", in_double(avg_pool1d), [numbers(x, -2, 2, dtype)],
                    dict(kernel=kernel, stride=stride or kernel, padding=padding, ceil=int(ceil),
                         include=int(include)))

    for call in (largest, mean):
        call((2, 3, 10), 2)
        call((2, 3, 11), 3)
        call((2, 3, 11), 3, 2, 1)
        call((2, 3, 11), 4, 3, 2, ceil=True)
        call((3, 11), 3, 1)
        call((2, 3, 11), 3, 2, 1, dtype=torch.float16)
    largest((2, 3, 11), 3, 2, 1, 2)
    mean((2, 3, 11), 3, 2, 1, include=False)
    for x, size in [((2, 3, 12), 4), ((2, 3, 11), 4), ((2, 3, 4), 11), ((2, 3, 7), 7), ((3, 9), 2),
                    ((2, 3, 5), 1)]:
        family.case("adaptive_avg_pool1d", in_double(adaptive_avg_pool1d), [numbers(x, -2, 2)],
                    {"size": size})


def adaptive(family):
    def case(x, size, dtype=torch.float32, values=None, views=None, twice=False):
        attributes = extents(size=size)
        x = numbers(x, -2, 2, dtype) if values is None else values
        family.case("adaptive_avg_pool2d", in_double(adaptive_avg_pool2d), [x], attributes, views)
        if twice:
            g = numbers(result_shape(adaptive_avg_pool2d, x, attributes), -1, 1, dtype, 3)
            family.case("adaptive_avg_pool2d_gradient",
                        in_double(gradient_of(adaptive_avg_pool2d)), [x, g], attributes)

    case((2, 3, 9, 9), 4, twice=True)
    case((2, 3, 9, 7), 4, twice=True)
    case((2, 3, 8, 6), 2, twice=True)
    case((2, 3, 8, 6), 1)
    case((2, 3, 13, 12), 6, twice=True)
    case((1, 2, 7, 7), 5)
    case((1, 2, 7, 7), (3, 7))
    case((1, 2, 7, 10), (3, 5), twice=True)
    case((1, 2, 3, 4), 7, twice=True)
    case((1, 2, 3, 5), (6, 2))
    case((1, 2, 2, 2), (4, 6))
    case((1, 2, 1, 1), 3, twice=True)
    case((2, 9, 7), (4, 3))
    case((0, 2, 9, 7), 4)
    case((2, 3, 9, 7), 4, views={0: "t"})
    for dtype in HALVES + [torch.float64]:
        case((2, 3, 9, 7), 4, dtype=dtype, twice=True)
        case((2, 3, 8, 8), 4, dtype=dtype)
    odd = numbers((1, 1, 5, 5), -1, 1)
    odd[0, 0, 2, 2], odd[0, 0, 4, 0] = NAN, INF
    case(None, 3, values=odd)


def resized(family):
    def case(x, size=None, scale=None, bilinear=False, aligned=False, dtype=torch.float32,
             values=None, views=None, twice=False):
        attributes = extents(size=size) if size else extents(scale=scale)
        attributes |= {"bilinear": int(bilinear), "aligned": int(aligned)}
        x = numbers(x, -2, 2, dtype) if values is None else values
        # Coordinates and weights are f32 if the images are.
        family.case("interpolate", interpolate, [x], attributes, views)
        if twice:
            g = numbers(result_shape(interpolate, x, attributes), -1, 1, dtype, 3)
            family.case("interpolate_gradient", gradient_of(interpolate), [x, g], attributes)

    for way in [dict(bilinear=True), dict(bilinear=True, aligned=True), dict()]:
        case((2, 3, 5, 5), (7, 9), twice=True, **way)
        case((2, 3, 5, 4), (7, 9), twice=True, **way)
        case((2, 3, 5, 4), (10, 8), twice=True, **way)
        case((2, 3, 9, 8), (4, 3), twice=True, **way)
        case((2, 3, 9, 8), (4, 11), **way)
        case((2, 3, 5, 4), (5, 4), **way)
        case((2, 3, 5, 4), (1, 1), **way)
        case((2, 3, 1, 1), (3, 4), **way)
        case((2, 3, 1, 4), (3, 1), **way)
        case((1, 1, 5, 4), (25, 23), twice=True, **way)
        case((1, 1, 25, 23), (5, 4), twice=True, **way)
        case((2, 3, 5, 4), None, 2.0, **way)
        case((2, 3, 5, 4), None, 1.7, twice=True, **way)
        case((2, 3, 7, 9), None, (0.6, 2.5), twice=True, **way)
        case((0, 3, 5, 4), (7, 9), **way)
        case((2, 3, 5, 4), (7, 9), views={0: "t"}, **way)
        for dtype in HALVES + [torch.float64]:
            case((2, 3, 5, 4), (7, 9), dtype=dtype, **way)
            case((2, 3, 5, 4), None, 3.0, dtype=dtype, **way)
        odd = numbers((1, 1, 5, 5), -1, 1)
        odd[0, 0, 2, 2] = NAN
        if not way:  # with weights, rounding decides between infinity and NaN
            odd[0, 0, 4, 0] = INF
        case(None, (8, 7), values=odd, **way)


def shuffled(family):
    for x, factor in [((2, 8, 3, 4), 2), ((2, 9, 3, 4), 3), ((12, 3, 4), 2), ((2, 2, 4, 3, 4), 2),
                      ((1, 3, 4, 5), 1)]:
        family.case("pixel_shuffle", F.pixel_shuffle, [numbers(x, -2, 2)],
                    {"upscale_factor": factor})
    for x, factor in [((2, 2, 6, 4), 2), ((2, 1, 9, 12), 3), ((3, 6, 4), 2), ((2, 2, 1, 6, 8), 2),
                      ((1, 3, 4, 5), 1), ((1, 1, 2, 2), 2)]:
        family.case("pixel_unshuffle", F.pixel_unshuffle, [numbers(x, -2, 2)],
                    {"downscale_factor": factor})
    for dtype in HALVES + [torch.int64, torch.bool]:
        x = numbers((2, 8, 3, 4), -9, 9).to(dtype)
        family.case("pixel_shuffle", F.pixel_shuffle, [x], {"upscale_factor": 2})


def cases():
    family = Family()
    pools(family)
    means(family)
    lines(family)
    adaptive(family)
    resized(family)
    shuffled(family)
    return family
