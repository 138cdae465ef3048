"""Golden cases of the normalisation of channels: batch norm with its running statistics and the gradients of
its gradients, group norm and instance norm."""
import torch
import torch.nn.functional as F

from golden import Family, numbers, viewed

HALVES = [torch.float16, torch.bfloat16]
NAN, INF = float("nan"), float("inf")


def parted(tensors, running, weight, bias):
    """The tensors that follow x: running mean and variance, weight, bias, None where there is none."""
    rest = list(tensors)
    take = lambda there: rest.pop(0).double() if there else None
    return take(running), take(running), take(weight), take(bias)


def by_torch(x, mean, variance, weight, bias, training, momentum, eps):
    # A module without running statistics also uses those of the batch in evaluation mode.
    return F.batch_norm(x, mean, variance, weight, bias, bool(training) or mean is None, momentum,
                        eps)


def batch_norm(x, *tensors, running, weight, bias, training, momentum, eps):
    mean, variance, w, b = parted(tensors, running, weight, bias)
    if mean is not None:
        mean, variance = mean.detach().clone(), variance.detach().clone()
    return by_torch(x.double(), mean, variance, w, b, training, momentum, eps).to(x.dtype)


def batch_norm_running(x, *tensors, running, weight, bias, training, momentum, eps):
    mean, variance, w, b = parted(tensors, running, weight, bias)
    mean, variance = mean.detach().clone(), variance.detach().clone()
    by_torch(x.detach().double(), mean, variance, w, b, training, momentum, eps)
    return torch.cat([mean, variance]).to(tensors[0].dtype)


def batch_norm_gradient(x, g, *tensors, **attributes):
    """The gradient for x as a function of x, the gradient of the result, and the weight."""
    leaf = x if x.requires_grad else x.detach().requires_grad_()
    y = batch_norm(leaf, *tensors, **attributes)
    slope, = torch.autograd.grad(y, leaf, g, create_graph=True)
    return slope


def group_norm(x, *tensors, groups, weight, bias, eps):
    _, _, w, b = parted(tensors, False, weight, bias)
    return F.group_norm(x.double(), groups, w, b, eps).to(x.dtype)


def instance_norm(x, *tensors, weight, bias, eps):
    _, _, w, b = parted(tensors, False, weight, bias)
    return F.instance_norm(x.double(), None, None, w, b, True, 0.1, eps).to(x.dtype)


def channels_of(x, view):
    return viewed(x, view).shape[1]


def parameters(channels, weight, bias, dtype):
    return (([numbers((channels,), 0.5, 2, dtype, 1)] if weight else []) +
            ([numbers((channels,), -1, 1, dtype, 2)] if bias else []))


def batches(family):
    def case(shape, training=True, running=True, weight=True, bias=True, momentum=0.1, eps=1e-5,
             dtype=torch.float32, parameter_dtype=None, view=None, values=None, twice=False):
        x = numbers(shape, -2, 3, dtype) if values is None else values
        kind = parameter_dtype or dtype
        channels = channels_of(x, view)
        tensors = ([numbers((channels,), -1, 1, kind, 3), numbers((channels,), 0.5, 2, kind, 4)]
                   if running else []) + parameters(channels, weight, bias, kind)
        attributes = dict(running=int(running), weight=int(weight), bias=int(bias),
                          training=int(training), momentum=momentum, eps=eps)
        views = {0: view} if view else None
        family.case("batch_norm", batch_norm, [x] + tensors, attributes, views)
        if running:
            family.case("batch_norm_running", batch_norm_running, [x] + tensors, attributes, views)
        if twice:
            g = numbers(shape, -1, 1, dtype, 5)
            family.case("batch_norm_gradient", batch_norm_gradient, [x, g] + tensors, attributes)

    # Devices that compile slowly run only the first case and those with the same structure.
    case((4, 3, 5, 6), twice=True)
    case((2, 3, 7, 5))
    case((4, 3, 5, 6), training=False, twice=True)
    for weight, bias in [(False, False), (True, False), (False, True)]:
        for training in (True, False):
            case((4, 3, 5, 6), training, weight=weight, bias=bias, twice=not weight and not bias)
    case((4, 3, 5, 6), running=False, twice=True)
    case((4, 3, 5, 6), training=False, running=False)
    case((4, 3, 5, 6), running=False, weight=False, bias=False)
    for shape in [(8, 5), (6, 4, 7), (2, 3, 2, 3, 4)]:
        case(shape, twice=True)
        case(shape, training=False)
    for shape in [(6, 3, 1), (5, 3, 1, 1), (1, 3, 4, 4), (2, 1, 3, 3), (2, 3, 1, 1, 1), (5, 4)]:
        case(shape)
    case((1, 3), training=False)
    case((0, 3, 2), training=False)
    case((0, 3, 2))
    case((2, 3, 0), running=False)
    for momentum in (0.0, 0.5, 1.0):
        case((4, 3, 5), momentum=momentum)
    case((4, 3, 5), eps=0.5, twice=True)
    case((4, 3, 5), eps=0.5, training=False)
    case((4, 5, 6, 3), view="channels_last")
    case((4, 5, 6, 3), view="channels_last", training=False)
    case((4, 5, 2, 6, 3), view="channels_last")
    case((4, 5, 5, 6), view="t")
    case((4, 5, 5, 6), view="slice")
    # For values far from 0 the rounding of the mean affects the gradient of the weight, which adds up to nearly 0.
    case((4, 3, 5, 6), values=numbers((4, 3, 5, 6), -1, 1) + 10, weight=False)
    case((4, 3, 5, 6), values=numbers((4, 3, 5, 6), -1, 1) * 100 - 500, weight=False)
    case((3, 2, 4), values=torch.full((3, 2, 4), 2.5))
    odd = numbers((3, 3, 4), -1, 1)
    odd[1, 0, 2], odd[0, 1, 1] = NAN, INF
    case((3, 3, 4), values=odd)
    case((3, 3, 4), values=odd, training=False)
    # Channels are processed in chunks of images or of their lines; the last chunk is shorter.
    case((10, 1, 1024), weight=False)
    case((1, 1, 128, 72), weight=False)
    case((9001, 1), weight=False)
    for dtype in HALVES + [torch.float64]:
        for training in (True, False):
            case((4, 3, 5, 6), training, dtype=dtype)
    for dtype in HALVES:
        for training in (True, False):
            case((4, 3, 5, 6), training, dtype=dtype, parameter_dtype=torch.float32)
    case((4, 3, 5, 6), dtype=torch.float64, twice=True)


def groups(family):
    def case(shape, groups, weight=True, bias=True, eps=1e-5, dtype=torch.float32, view=None,
             parameter_dtype=None):
        x = numbers(shape, -2, 3, dtype)
        tensors = parameters(channels_of(x, view), weight, bias, parameter_dtype or dtype)
        views = {0: view} if view else None
        attributes = dict(weight=int(weight), bias=int(bias), eps=eps)
        if groups is None:
            family.case("instance_norm", instance_norm, [x] + tensors, attributes, views)
        else:
            family.case("group_norm", group_norm, [x] + tensors, attributes | {"groups": groups},
                        views)

    for parts in (2, None):
        case((3, 4, 5, 2), parts)
        case((3, 4, 5, 2), parts, weight=False, bias=False)
        case((3, 4, 5, 2), parts, bias=False)
        case((3, 4, 5), parts)
        case((3, 4, 2, 3, 2), parts)
        case((3, 4, 5, 2), parts, eps=0.5)
        case((3, 5, 2, 4), parts, view="channels_last")
        for dtype in HALVES + [torch.float64]:
            case((3, 4, 5, 2), parts, dtype=dtype)
        case((3, 4, 5, 2), parts, dtype=torch.bfloat16, parameter_dtype=torch.float32)
    case((3, 8), 2)
    case((3, 4, 5), 1)
    case((3, 4, 5), 4)
    case((0, 4, 5), 2)
    case((2, 4, 0), None)


def cases():
    family = Family()
    batches(family)
    groups(family)
    return family
