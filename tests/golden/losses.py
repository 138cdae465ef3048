"""Golden cases of losses: every one with every reduction and option, values and gradients; NaN,
infinite numbers, ties, empty batches; the gradients of the gradients of cross-entropy. mse_loss is in
network.py."""
import torch
import torch.nn.functional as F

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
HALVES = [torch.float16, torch.bfloat16]
REDUCTIONS = ["none", "mean", "sum", "batchmean"]


def wide(t):
    return t.double() if t.is_floating_point() else t


def reduced(losses, reduction):
    if reduction == 3:
        return losses.sum() / losses.shape[0] if losses.dim() else losses.sum()
    return [losses, losses.mean, losses.sum][reduction]() if reduction else losses


def by_torch(function):
    """The function computed in f64 and rounded once."""
    def run(x, target, reduction, **options):
        return function(wide(x), wide(target), reduction=REDUCTIONS[reduction], **options).to(x.dtype)
    return run


def elementwise(family):
    def cases(name, function, x, target, options, more=()):
        """x and target create inputs of a shape and a dtype. Slow devices run only the first case."""
        def case(shape, reduction, dtype=torch.float32, **given):
            family.case(name, function, [x(shape, dtype), target(shape, dtype)],
                        {"reduction": reduction} | options | given)
        case((3, 4), 0)
        for reduction in (1, 2):
            case((3, 4), reduction)
            for shape in [(5,), (2, 3, 4), (1,), (), (0, 4)]:
                case(shape, reduction)
        case((0, 4), 0)
        case((), 0)
        for dtype in HALVES + [torch.float64]:
            for reduction in (1, 2):
                case((3, 4), reduction, dtype)
        for given in more:
            for reduction in (1, 2):
                case((3, 4), reduction, **given)
            case((5,), 0, **given)
    pair = (lambda shape, dtype: numbers(shape, -2, 2, dtype),
            lambda shape, dtype: numbers(shape, -2, 2, dtype, 1))
    odd = [torch.tensor([NAN, INF, -INF, 1.0, 2.0, 0.0]), torch.tensor([0.0, 1.0, 2.0, NAN, INF, 0.0])]
    ties = [torch.tensor([1.0, 2.0, -1.0, 0.5, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0, 2.0])]

    l1 = by_torch(F.l1_loss)
    cases("l1_loss", l1, *pair, {})
    smooth = by_torch(F.smooth_l1_loss)
    cases("smooth_l1_loss", smooth, *pair, {"beta": 1.0}, [{"beta": 0.5}, {"beta": 2.5}])
    huber = by_torch(F.huber_loss)
    cases("huber_loss", huber, *pair, {"delta": 1.0}, [{"delta": 0.5}, {"delta": 2.5}])
    for special in (odd, ties):
        family.case("l1_loss", l1, special, {"reduction": 0})
        for size in (1.0, 0.5):
            family.case("smooth_l1_loss", smooth, special, {"reduction": 0, "beta": size})
            family.case("huber_loss", huber, special, {"reduction": 0, "delta": size})
    # A loss without a quadratic part.
    family.case("smooth_l1_loss", smooth, ties, {"reduction": 0, "beta": 0.0})

    def gaussian(mu, logvar, reduction):
        mean, variance = wide(mu), wide(logvar)
        scale = (0.5 * variance).exp()
        normal = torch.distributions.Normal(mean, scale, validate_args=False)
        standard = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        return reduced(torch.distributions.kl_divergence(normal, standard), reduction).to(mu.dtype)
    cases("gaussian_kl", gaussian, *pair, {})
    for shape in [(3, 4), (2, 3, 4), (5,), ()]:
        family.case("gaussian_kl", gaussian, [numbers(shape, -2, 2), numbers(shape, -3, 1)],
                    {"reduction": 3})


def divergences(family):
    def kl(x, target, reduction, log_target, data=0):
        other = wide(target.detach() if data else target)
        return F.kl_div(wide(x), other, reduction=REDUCTIONS[reduction],
                        log_target=bool(log_target)).to(x.dtype)
    for name, log_target in [("kl_div", 0), ("kl_div_log", 1)]:
        def case(shape, reduction, dtype=torch.float32):
            target = numbers(shape, -3, 0, dtype, 1) if log_target else numbers(shape, 0.05, 1, dtype, 1)
            family.case(name, kl, [numbers(shape, -3, 0, dtype), target],
                        {"reduction": reduction, "log_target": log_target})
        case((3, 4), 0)
        for reduction in (1, 2, 3):
            for shape in [(3, 4), (5,), (2, 3, 4), (), (0, 4)]:
                case(shape, reduction)
        for dtype in HALVES + [torch.float64]:
            case((3, 4), 1, dtype)
    # Where the target is 0 there is no loss; below 0 there is no logarithm.
    x, target = torch.tensor([-1.0, -2.0, -INF, NAN, -1.0]), torch.tensor([0.0, 0.5, 0.25, 0.25, -0.5])
    family.case("kl_div", kl, [x, target], {"reduction": 0, "log_target": 0, "data": 1})
    family.case("kl_div_log", kl, [torch.tensor([-1.0, -2.0, NAN]), torch.tensor([-INF, 1.0, 0.5])],
                {"reduction": 0, "log_target": 1, "data": 1})


def binary(family):
    def bce(x, target, *weights, reduction, weight):
        w = wide(weights[0].detach()) if weight else None
        return F.binary_cross_entropy(wide(x), wide(target), w, reduction=REDUCTIONS[reduction]).to(x.dtype)

    def logits(x, target, *weights, reduction, weight, pos_weight):
        rest = [wide(w.detach()) for w in weights]
        w = rest.pop(0) if weight else None
        p = rest.pop(0) if pos_weight else None
        return F.binary_cross_entropy_with_logits(wide(x), wide(target), w, pos_weight=p,
                                                  reduction=REDUCTIONS[reduction]).to(x.dtype)

    def case(name, shape, reduction, weight=None, pos_weight=None, dtype=torch.float32, weight_dtype=None,
             inputs=None):
        given = inputs or [numbers(shape, 0.02, 0.98, dtype) if name == "binary_cross_entropy"
                           else numbers(shape, -4, 4, dtype), numbers(shape, 0, 1, dtype, 1)]
        kind = weight_dtype or dtype
        more = [numbers(s, 0.5, 2, kind, 2 + i) for i, s in enumerate([weight, pos_weight]) if s is not None]
        attributes = {"reduction": reduction, "weight": int(weight is not None)}
        if name != "binary_cross_entropy":
            attributes["pos_weight"] = int(pos_weight is not None)
        family.case(name, bce if name == "binary_cross_entropy" else logits, given + more, attributes)

    for name in ["binary_cross_entropy", "binary_cross_entropy_with_logits"]:
        with_logits = name != "binary_cross_entropy"
        case(name, (3, 4), 0, weight=(4,), pos_weight=(4,) if with_logits else None)
        for reduction in range(3):
            for shape in [(3, 4), (5,), (2, 3, 4), (), (0, 4)]:
                if reduction or len(shape) != 2 or shape[0] == 0:
                    case(name, shape, reduction)
            for weight in [(3, 4), (3, 1), (1,), ()]:
                case(name, (3, 4), reduction, weight=weight)
            if with_logits:
                case(name, (3, 4), reduction, pos_weight=(4,))
                case(name, (3, 4), reduction, weight=(3, 1), pos_weight=(4,))
                case(name, (2, 3, 4), reduction, pos_weight=(3, 1))
        for dtype in HALVES + [torch.float64]:
            case(name, (3, 4), 1, dtype=dtype)
            case(name, (3, 4), 1, weight=(4,), dtype=dtype)
        case(name, (3, 4), 1, weight=(4,), dtype=torch.bfloat16, weight_dtype=torch.float32)
    # Probabilities of 0 and 1 with wrong and right targets. The gradient for the target is infinite.
    edges = [torch.tensor([0.0, 1.0, 1.0, 0.0, 1e-30]), torch.tensor([0.25, 0.25, 1.0, 0.0, 1.0])]
    case("binary_cross_entropy", None, 0, inputs=edges)
    case("binary_cross_entropy", None, 0, weight=(5,), inputs=edges)
    large = [torch.tensor([1e4, -1e4, 1e4, -1e4, 100.0, -100.0, 0.0, NAN, 1e30]),
             torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.0])]
    case("binary_cross_entropy_with_logits", None, 0, inputs=large)
    case("binary_cross_entropy_with_logits", None, 0, pos_weight=(9,), inputs=large)


def classes(family):
    def labelled(x, labels, *weights, reduction, weight, label_smoothing=0.0, ignore_index=-100):
        w = wide(weights[0].detach()) if weight else None
        return F.cross_entropy(wide(x), labels.long(), w, ignore_index=ignore_index,
                               reduction=REDUCTIONS[reduction], label_smoothing=label_smoothing).to(x.dtype)

    def nll(x, labels, *weights, reduction, weight, ignore_index=-100):
        w = wide(weights[0].detach()) if weight else None
        return F.nll_loss(wide(x), labels.long(), w, ignore_index=ignore_index,
                          reduction=REDUCTIONS[reduction]).to(x.dtype)

    def probable(x, target, *weights, reduction, weight, label_smoothing=0.0):
        w = wide(weights[0].detach()) if weight else None
        return F.cross_entropy(wide(x), wide(target), w, reduction=REDUCTIONS[reduction],
                               label_smoothing=label_smoothing).to(x.dtype)

    def gradient(x, g, target, *weights, **attributes):
        """The gradient for x as a function of x and the gradient of the result."""
        leaf = x if x.requires_grad else x.detach().requires_grad_()
        function = probable if target.is_floating_point() else labelled
        loss = function(leaf, target.detach(), *weights, **attributes)
        slope, = torch.autograd.grad(loss, leaf, g, create_graph=True)
        return slope

    def case(name, shape, reduction, weight=False, smoothing=None, ignore=None, dtype=torch.float32,
             weight_dtype=None, x=None, labels=None, label_dtype=torch.int64, views=None):
        seen = (shape[1], shape[0]) if views else shape
        axis = 0 if len(seen) == 1 else 1
        rows = seen[:axis] + seen[axis + 1:]
        count = seen[axis]
        if x is None:
            x = numbers(shape, -3, 0 if name == "nll_loss" else 3, dtype)
        if name == "cross_entropy_probabilities":
            target = torch.softmax(numbers(shape, -2, 2, torch.float64, 1), axis).to(dtype)
        elif labels is not None:
            target = labels
        else:
            target = integers(rows, 0, count - 1, label_dtype)
            if ignore is not None and target.numel() > 1:
                target.view(-1)[1] = ignore
        inputs = [x, target] + ([numbers((count,), 0.5, 2, weight_dtype or dtype, 2)] if weight else [])
        attributes = {"reduction": reduction, "weight": int(weight)}
        if smoothing is not None:
            attributes["label_smoothing"] = smoothing
        if ignore is not None:
            attributes["ignore_index"] = ignore
        function = {"nll_loss": nll, "cross_entropy": labelled,
                    "cross_entropy_probabilities": probable}[name]
        family.case(name, function, inputs, attributes, views)
        if name != "nll_loss" and dtype == torch.float32 and shape == (4, 5) and not views:
            g = numbers(rows if reduction == 0 else (), 0.5, 1.5, dtype, 7)
            # The target comes after g. Probabilities get no gradient here.
            family.case("cross_entropy_gradient", gradient, [x, g] + inputs[1:], attributes)

    for name in ["cross_entropy", "cross_entropy_probabilities", "nll_loss"]:
        smoothings = [None] if name == "nll_loss" else [None, 0.1]
        ignores = [None] if name == "cross_entropy_probabilities" else [None, -100, 2]
        # All options at once. Slow devices run only this case.
        case(name, (4, 5), 0, True, smoothings[-1], ignores[-1])
        for reduction in range(3):
            for smoothing in smoothings:
                for ignore in ignores:
                    for weight in (False, True):
                        if reduction == 0 and (weight, smoothing, ignore) == (True, smoothings[-1], ignores[-1]):
                            continue
                        case(name, (4, 5), reduction, weight, smoothing, ignore)
                        if reduction == 1 or not weight:
                            case(name, (2, 3, 4), reduction, weight, smoothing, ignore)
                case(name, (5,), reduction, True, smoothing)
                case(name, (5,), reduction, False, smoothing)
            case(name, (2, 3, 2, 2), reduction, True)
            case(name, (0, 5), reduction)
            case(name, (0, 5), reduction, True)
            case(name, (2, 3, 0), reduction)
            case(name, (1, 1), reduction)
        for dtype in HALVES + [torch.float64]:
            case(name, (4, 5), 1, dtype=dtype)
            case(name, (4, 5), 1, True, smoothings[-1], ignores[-1], dtype=dtype)
        case(name, (4, 5), 1, True, dtype=torch.bfloat16, weight_dtype=torch.float32)
    for name in ["cross_entropy", "nll_loss"]:
        case(name, (5, 4), 1, True, ignore=1, views={0: "t"}, label_dtype=torch.int32)
        case(name, (4, 5), 1, label_dtype=torch.uint8)
        # All labels are ignored.
        nobody = torch.full((4,), 2)
        for reduction in range(3):
            case(name, (4, 5), reduction, ignore=2, labels=nobody)
        case(name, (4, 5), 1, True, ignore=2, labels=nobody)
    large = torch.tensor([[1e4, -1e4, 0.0], [1e30, 1e30, -1e30], [-INF, 0.0, 1.0], [NAN, 0.0, 1.0]])
    labels = torch.tensor([0, 1, 2, 1])
    case("cross_entropy", (4, 3), 0, x=large, labels=labels)
    case("cross_entropy", (4, 3), 0, True, x=large, labels=labels)
    case("cross_entropy", (4, 3), 0, smoothing=0.1, x=large, labels=labels)
    case("cross_entropy", (4, 3), 0, smoothing=1.0, x=large, labels=labels)
    case("cross_entropy_probabilities", (4, 3), 0, x=large)
    case("nll_loss", (4, 3), 0, x=large, labels=labels)
    # The default of ignore_index.
    for name in ["cross_entropy", "nll_loss"]:
        for some in [torch.tensor([1, -100, 4, 0]), torch.full((4,), -100)]:
            for reduction in range(3):
                for weight in (False, True):
                    case(name, (4, 5), reduction, weight, labels=some)


def cases():
    family = Family()
    elementwise(family)
    divergences(family)
    binary(family)
    classes(family)
    return family
