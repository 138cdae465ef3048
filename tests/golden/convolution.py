"""Golden cases of convolutions: every option, alone and together, plain and transposed."""
import itertools

import torch
import torch.nn.functional as F

from golden import Family, numbers

OPTIONS2 = ["stride_h", "stride_w", "padding_h", "padding_w", "dilation_h", "dilation_w"]
HALVES = [torch.float16, torch.bfloat16]
NAN, INF = float("nan"), float("inf")


def in_double(function):
    """The function computed in f64 and rounded once, the reference for f32 sums in any order."""
    def call(*tensors, **attributes):
        return function(*[t.double() for t in tensors], **attributes).to(tensors[0].dtype)
    return call


def conv2d(x, w, *bias, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups):
    return F.conv2d(x, w, *bias, stride=(stride_h, stride_w), padding=(padding_h, padding_w),
                    dilation=(dilation_h, dilation_w), groups=groups)


def conv_transpose2d(x, w, *bias, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
                     groups, more_h, more_w):
    return F.conv_transpose2d(x, w, *bias, stride=(stride_h, stride_w),
                              padding=(padding_h, padding_w), output_padding=(more_h, more_w),
                              groups=groups, dilation=(dilation_h, dilation_w))


def conv1d(x, w, *bias, stride, padding, dilation, groups):
    return F.conv1d(x, w, *bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv_transpose1d(x, w, *bias, stride, padding, dilation, groups, more):
    return F.conv_transpose1d(x, w, *bias, stride=stride, padding=padding, output_padding=more,
                              groups=groups, dilation=dilation)


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def planar(family):
    def case(x, w, stride=1, padding=0, dilation=1, groups=1, bias=True, dtype=torch.float32,
             views=None, values=None):
        inputs = [numbers(x, -2, 2, dtype), numbers(w, -1, 1, dtype, 1)]
        if values is not None:
            inputs[0] = values
        if bias:
            inputs.append(numbers((w[0],), -1, 1, dtype, 2))
        attributes = dict(zip(OPTIONS2, [*pair(stride), *pair(padding), *pair(dilation)]))
        family.case("conv2d", in_double(conv2d), inputs, {**attributes, "groups": groups}, views)

    for stride, padding, dilation, groups in itertools.product([1, 2], [0, 1], [1, 2], [1, 2]):
        case((2, 4, 7, 6), (6, 4 // groups, 3, 3), stride, padding, dilation, groups,
             bias=(stride + padding) % 2 == 0)
    # Kernels and strides per axis, elements that no window reaches, and windows far apart.
    case((2, 3, 8, 5), (4, 3, 1, 1))
    case((2, 3, 8, 5), (4, 3, 1, 1), 2)
    case((2, 3, 8, 5), (4, 3, 5, 2), (3, 1), (2, 0))
    case((2, 3, 8, 9), (4, 3, 2, 3), (1, 2), (0, 2), (3, 1))
    case((1, 2, 9, 9), (3, 2, 2, 2), 4)
    case((1, 2, 9, 9), (3, 2, 2, 2), 4, 1)
    case((1, 2, 10, 10), (3, 2, 3, 3), 3, 2, 2)
    case((1, 2, 5, 5), (3, 2, 5, 5))
    case((1, 2, 5, 5), (3, 2, 5, 5), 1, 4)
    case((1, 2, 4, 4), (3, 2, 7, 7), 1, 3)
    case((1, 2, 4, 4), (3, 2, 3, 3), 2, 3)
    case((3, 1, 6, 6), (2, 1, 3, 3), 1, 1)
    case((1, 1, 1, 1), (1, 1, 1, 1))
    case((1, 1, 1, 1), (1, 1, 3, 3), 1, 1)
    case((0, 2, 5, 5), (3, 2, 3, 3))
    # Groups of one channel, of several results per channel, and large groups.
    case((2, 6, 7, 6), (6, 1, 3, 3), 1, 1, 1, 6)
    case((2, 6, 7, 6), (6, 1, 3, 3), 2, 1, 1, 6, bias=False)
    case((2, 3, 7, 6), (6, 1, 3, 3), 1, 1, 2, 3)
    case((2, 3, 7, 6), (6, 1, 2, 3), (2, 3), (1, 0), 1, 3)
    case((2, 6, 5, 5), (9, 2, 3, 3), 1, 1, 1, 3)
    case((2, 8, 5, 5), (4, 2, 1, 1), 1, 0, 1, 4, bias=False)
    # Sizes that are large enough for library products.
    case((2, 16, 10, 10), (32, 16, 3, 3), 1, 1)
    case((3, 8, 12, 11), (16, 8, 3, 3), 2, 1, bias=False)
    case((2, 16, 9, 9), (32, 8, 3, 3), 1, 1, 1, 2)
    case((2, 12, 8, 8), (20, 12, 1, 1))
    for kernel, padding in [(1, 0), (2, 1), (4, 1), (5, 2), ((1, 3), (0, 1)), ((3, 1), (1, 0))]:
        case((2, 3, 7, 8), (4, 3, *pair(kernel)), 1, padding)
        case((2, 3, 7, 8), (4, 3, *pair(kernel)), 2, padding, bias=False)
    # Inputs with other layouts.
    case((2, 3, 6, 6), (4, 3, 3, 3), 1, 1, views={0: "t"})
    case((2, 3, 6, 6), (4, 3, 3, 3), 1, 1, views={1: "t"})
    case((2, 5, 6, 6), (4, 3, 3, 3), 1, 1, views={0: "slice"})
    for dtype in HALVES + [torch.float64]:
        case((2, 3, 6, 6), (4, 3, 3, 3), 1, 1, dtype=dtype)
        case((2, 4, 7, 6), (6, 2, 3, 3), 2, 1, 1, 2, dtype=dtype)
        case((2, 4, 7, 6), (4, 1, 3, 3), 1, 1, 1, 4, dtype=dtype)
        case((2, 16, 8, 8), (24, 16, 3, 3), 1, 1, dtype=dtype)
    odd = torch.tensor([[[[1.0, -0.0, NAN, 2.0], [INF, 1e30, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0],
                          [0.0, 0.0, 0.0, 0.0]]]])
    case((1, 1, 4, 4), (2, 1, 2, 2), values=odd)


def planar_transposed(family):
    def case(x, w, stride=1, padding=0, more=0, dilation=1, groups=1, bias=True,
             dtype=torch.float32, views=None):
        inputs = [numbers(x, -2, 2, dtype), numbers(w, -1, 1, dtype, 1)]
        if bias:
            inputs.append(numbers((w[1] * groups,), -1, 1, dtype, 2))
        attributes = dict(zip(OPTIONS2, [*pair(stride), *pair(padding), *pair(dilation)]))
        more = dict(zip(["more_h", "more_w"], pair(more)))
        family.case("conv_transpose2d", in_double(conv_transpose2d), inputs,
                    {**attributes, "groups": groups, **more}, views)

    for stride, padding, dilation, groups in itertools.product([1, 2], [0, 1], [1, 2], [1, 2]):
        case((2, 4, 5, 4), (4, 6 // groups, 3, 3), stride, padding, 0, dilation, groups,
             bias=(stride + padding) % 2 == 0)
    case((2, 4, 5, 4), (4, 3, 3, 3), 2, 1, 1)
    case((2, 4, 5, 4), (4, 3, 3, 3), 3, 1, (2, 1))
    case((2, 4, 5, 4), (4, 3, 4, 4), 2, 1)
    case((2, 4, 5, 4), (4, 3, 2, 2), 2)
    case((2, 4, 5, 4), (4, 3, 2, 2), 3)
    case((2, 4, 5, 4), (4, 3, 2, 3), (3, 1), (0, 1), (1, 0))
    case((2, 4, 5, 4), (4, 3, 3, 3), 1, 1, 1, 2)
    case((1, 1, 1, 1), (1, 1, 1, 1))
    case((1, 2, 1, 1), (2, 3, 4, 4))
    case((0, 2, 3, 3), (2, 3, 3, 3))
    case((2, 6, 4, 5), (6, 1, 3, 3), 2, 1, 1, 1, 6)
    case((2, 3, 4, 5), (3, 2, 3, 3), 1, 1, 0, 1, 3)
    case((2, 6, 4, 4), (6, 2, 3, 3), 2, 0, 0, 1, 3, bias=False)
    case((2, 16, 5, 5), (16, 24, 4, 4), 2, 1)
    case((2, 16, 8, 8), (16, 24, 3, 3), 1, 1)
    case((2, 3, 4, 4), (3, 4, 3, 3), 2, 1, views={0: "t"})
    for dtype in HALVES + [torch.float64]:
        case((2, 4, 5, 4), (4, 3, 3, 3), 2, 1, 1, dtype=dtype)
        case((2, 16, 5, 5), (16, 24, 3, 3), 1, 1, dtype=dtype)


def linear(family):
    def case(x, w, stride=1, padding=0, dilation=1, groups=1, bias=True, dtype=torch.float32):
        inputs = [numbers(x, -2, 2, dtype), numbers(w, -1, 1, dtype, 1)]
        if bias:
            inputs.append(numbers((w[0],), -1, 1, dtype, 2))
        family.case("conv1d", in_double(conv1d), inputs,
                    dict(stride=stride, padding=padding, dilation=dilation, groups=groups))

    for stride, padding, dilation, groups in itertools.product([1, 3], [0, 2], [1, 2], [1, 2]):
        case((2, 4, 11), (6, 4 // groups, 3), stride, padding, dilation, groups, bias=padding == 0)
    case((2, 4, 11), (6, 4, 1))
    case((2, 4, 11), (6, 4, 11))
    case((2, 4, 11), (4, 1, 3), 1, 1, 1, 4)
    case((1, 1, 1), (1, 1, 1))
    case((0, 4, 5), (2, 4, 3))
    case((2, 32, 40), (32, 32, 3), 1, 1)
    for dtype in HALVES + [torch.float64]:
        case((2, 4, 11), (6, 4, 3), 1, 1, dtype=dtype)


def linear_transposed(family):
    def case(x, w, stride=1, padding=0, more=0, dilation=1, groups=1, bias=True,
             dtype=torch.float32):
        inputs = [numbers(x, -2, 2, dtype), numbers(w, -1, 1, dtype, 1)]
        if bias:
            inputs.append(numbers((w[1] * groups,), -1, 1, dtype, 2))
        family.case("conv_transpose1d", in_double(conv_transpose1d), inputs,
                    dict(stride=stride, padding=padding, dilation=dilation, groups=groups,
                         more=more))

    for stride, padding, groups in itertools.product([1, 2, 3], [0, 1], [1, 2]):
        case((2, 4, 7), (4, 6 // groups, 3), stride, padding, stride - 1, 1, groups,
             bias=padding == 0)
    case((2, 4, 7), (4, 3, 3), 1, 0, 0, 3)
    case((1, 1, 1), (1, 1, 1))
    case((2, 4, 7), (4, 1, 4), 2, 1, 0, 1, 4)
    for dtype in HALVES + [torch.float64]:
        case((2, 4, 7), (4, 3, 3), 2, 1, 1, dtype=dtype)


def cases():
    family = Family()
    planar(family)
    planar_transposed(family)
    linear(family)
    linear_transposed(family)
    return family
