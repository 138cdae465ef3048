"""Golden cases of attention: causal, masks of every form, grouped heads, lengths, sizes, dtypes."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from golden import Family, integers, numbers

HALVES = [torch.float16, torch.bfloat16]
INF = float("inf")


def attention(q, k, v, *mask, causal, scale=None):
    """Attention computed in f64 and rounded once, the reference for f32 sums in any order. PyTorch accepts either a
    mask or causal; here both are combined into one mask."""
    dtype, mask = q.dtype, mask[0] if mask else None
    if mask is not None and causal:
        below = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        mask = mask & below if mask.dtype == torch.bool else mask.masked_fill(~below, -INF)
        causal = False
    if mask is not None and mask.is_floating_point():
        mask = mask.double()
    with sdpa_kernel(SDPBackend.MATH):
        result = F.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), attn_mask=mask, is_causal=bool(causal), scale=scale,
            enable_gqa=q.dim() > 2 and q.shape[-3] != k.shape[-3])
    return result.to(dtype)


def seen(shape, salt=0):
    """A boolean mask in which each query sees about two keys of three, and always the first one."""
    mask = integers(shape, 0, 2, salt=salt) > 0
    mask[..., 0] = True
    return mask


def added(shape, dtype=torch.float32, salt=0):
    return numbers(shape, -2, 2, dtype, salt)


def cases():
    family = Family()

    def case(q, k=None, dv=None, mask=None, causal=0, scale=None, dtype=torch.float32, views=None,
             size=2):
        k = k or q
        v = (*k[:-1], dv or k[-1])
        views = views or {}
        stored = lambda i, shape: (*shape[:-2], shape[-1], shape[-2]) if views.get(i) == "t" else (
            (shape[0], shape[1] + 2, *shape[2:]) if views.get(i) == "slice" else shape)
        inputs = [numbers(stored(i, shape), -size, size, dtype, i)
                  for i, shape in enumerate((q, k, v))]
        if mask is not None:
            inputs.append(mask)
        attributes = {"causal": causal}
        if scale is not None:
            attributes["scale"] = scale
        family.case("attention", attention, inputs, attributes, views)

    # Different lengths and sizes, causal or not.
    for causal in (0, 1):
        for q, k, dv in [((2, 3, 5, 8), None, None), ((2, 3, 7, 8), (2, 3, 4, 8), None),
                         ((2, 3, 4, 8), (2, 3, 7, 8), None), ((2, 2, 1, 8), (2, 2, 6, 8), None),
                         ((2, 2, 6, 8), (2, 2, 1, 8), None), ((1, 1, 1, 1), None, None),
                         ((2, 2, 5, 1), None, None), ((2, 2, 5, 3), None, None),
                         ((1, 2, 6, 64), None, None), ((2, 2, 5, 8), None, 3),
                         ((2, 2, 5, 3), (2, 2, 6, 3), 8), ((1, 2, 3, 256), None, None)]:
            case(q, k, dv, causal=causal)
    # Sizes that are large enough for library products.
    for causal in (0, 1):
        case((2, 2, 40, 32), causal=causal)
        case((1, 2, 33, 64), (1, 2, 50, 64), 24, causal=causal)
    # Grouped heads.
    for causal in (0, 1):
        case((2, 4, 5, 8), (2, 2, 5, 8), causal=causal)
        case((1, 6, 4, 8), (1, 1, 7, 8), causal=causal)
        case((1, 8, 24, 16), (1, 2, 30, 16), causal=causal)
    case((2, 6, 5, 4), (2, 2, 6, 4), 3, mask=seen((6, 5, 6)))
    # Boolean and additive masks of every shape that broadcasts.
    for kind in (seen, added):
        for shape in [(2, 3, 5, 6), (2, 1, 5, 6), (1, 3, 5, 6), (5, 6), (1, 6), (2, 1, 1, 6), (3, 1, 6)]:
            case((2, 3, 5, 8), (2, 3, 6, 8), mask=kind(shape))
        # A mask with one number per row changes nothing. Its gradient is 0 in exact arithmetic and noise in f32.
        for shape in [(5, 1), (2, 3, 5, 1), (1,), ()]:
            mask = kind(shape) if shape else kind((1,)).reshape(())
            mask = mask if kind is seen else mask.double()
            case((2, 3, 5, 8), (2, 3, 6, 8), mask=mask, dtype=torch.float64)
        case((2, 3, 5, 8), (2, 3, 6, 8), mask=kind((5, 6)), causal=1)
        case((1, 2, 32, 48), mask=kind((2, 32, 32)))
    # Queries that see no key.
    none = seen((5, 6), 1)
    none[1] = none[4] = False
    case((2, 3, 5, 8), (2, 3, 6, 8), mask=none)
    case((2, 3, 5, 8), (2, 3, 6, 8), mask=torch.zeros((5, 6), dtype=torch.bool))
    case((2, 3, 5, 8), (2, 3, 6, 8), mask=added((5, 6)).masked_fill(~none, -INF))
    hidden = seen((5, 5), 2)
    hidden[:, 0] = False
    case((2, 3, 5, 8), mask=hidden, causal=1)
    # Different scales and large scores.
    for scale in (1.0, 0.3, -0.5, 0.0):
        case((2, 2, 5, 8), scale=scale)
    case((2, 2, 5, 8), scale=1.0, size=6)
    case((2, 2, 5, 8), scale=4.0, dtype=torch.float64)
    case((2, 2, 5, 8), mask=added((5, 5)) * 50)
    # Any number of axes, batch axes that broadcast, and no batch axis.
    case((5, 8), (6, 8))
    case((3, 5, 8), (3, 6, 8), causal=1)
    case((3, 5, 8), (3, 6, 8), mask=seen((5, 6)))
    case((2, 3, 2, 5, 4), (2, 3, 2, 6, 4), mask=seen((3, 1, 5, 6)))
    case((2, 3, 2, 5, 4), (1, 3, 2, 6, 4), mask=added((2, 3, 1, 5, 6)))
    case((5, 8), (6, 8), mask=added((5, 6)))
    case((0, 2, 5, 4))
    case((2, 2, 0, 4), (2, 2, 3, 4))
    case((2, 2, 3, 4), (2, 2, 0, 4))
    # Inputs with other layouts.
    case((2, 3, 5, 8), views={0: "t", 1: "t", 2: "t"})
    case((2, 3, 24, 32), views={0: "t", 1: "t", 2: "t"})
    case((2, 3, 5, 8), views={0: "slice", 1: "slice", 2: "slice"}, causal=1)
    for dtype in HALVES + [torch.float64]:
        case((2, 3, 5, 8), dtype=dtype)
        case((2, 4, 6, 8), (2, 2, 7, 8), 4, causal=1, dtype=dtype)
        case((2, 3, 5, 8), (2, 3, 6, 8), mask=none, dtype=dtype)
        case((2, 3, 5, 8), (2, 3, 6, 8), mask=added((3, 1, 6), dtype), dtype=dtype)
        case((1, 2, 40, 32), causal=1, dtype=dtype)
    return family
