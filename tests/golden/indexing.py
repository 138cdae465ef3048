"""Golden cases of indexing (row O7): parts, integers, masks, along an axis, triangles, order; reading
and assigning. If an element is written more than once, PyTorch guarantees no result and gives every
value the gradient. Volta's own tests have those cases.
"""
import torch

from golden import Family, integers, numbers

NAN, INF = float("nan"), float("inf")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -3.0, 7.0]


def special(shape):
    return torch.tensor((SPECIAL * 3)[: shape[0] * shape[1]]).reshape(shape)


# The call of each case: index(x, ids...) of rank 2 or 3.
READS = {
    "row": lambda x: x[-1],
    "range": lambda x: x[:, 1:3],
    "step": lambda x: x[::2, 1:],
    "newaxis": lambda x: x[..., None, 0],
    "corner": lambda x: x[1:, -2:],
}
INTEGER_READS = {
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: x[:, i],
    "pairs": lambda x, i: x[i, i.flip(0)],
    "outer": lambda x, i: x[i[:, None], i],
    "beside_range": lambda x, i: x[1:][i - 1, 0:2],
}


def cases():
    family = Family()
    layouts = [(numbers((3, 4), -3, 3), None), (numbers((4, 3), -3, 3), {0: "t"}),
               (numbers((3, 6), -3, 3), {0: "slice"}), (special((3, 4)), None),
               (integers((3, 4), -9, 9), None), (numbers((3, 4), -3, 3, torch.float16), None),
               (numbers((3, 4), -3, 3, torch.float64), None)]
    for name, read in READS.items():
        for x, views in layouts:
            family.case(f"read_{name}", read, [x], None, views)
    for name, read in INTEGER_READS.items():
        for x, views in layouts[:5]:
            family.case(f"index_{name}", read, [x, torch.tensor([2, 1, 2])], None, views)
        family.case(f"index_{name}", read, [numbers((3, 4), -3, 3), torch.tensor([1])])
    i32 = torch.tensor([-1, 0, -3], dtype=torch.int32)
    family.case("index_rows", lambda x, i: x[i], [numbers((3, 4), -3, 3), i32])
    family.case("index_rows", lambda x, i: x[i],
                [numbers((3, 4), -3, 3), torch.zeros(0, dtype=torch.int64)])
    for x, views in layouts[:5]:
        shape = (x.t() if views == {0: "t"} else x).shape if views != {0: "slice"} else (3, 4)
        mask = integers(shape, 0, 1, torch.int64, 3).bool()
        family.case("index_mask", lambda x, m: x[m], [x, mask], None, views)
        family.case("masked_select", torch.masked_select, [x, mask], None, views)
        family.case("masked_fill", lambda x, m, value: x.masked_fill(m, value), [x, mask],
                    {"value": 5}, views)
    for x in (numbers((3, 4), -3, 3), special((3, 4))):
        none = torch.zeros(3, 4, dtype=torch.bool)
        family.case("index_mask", lambda x, m: x[m], [x, none])
        family.case("masked_select", torch.masked_select, [x, none[0]])
        family.case("masked_fill", lambda x, m, value: x.masked_fill(m, value), [x, ~none[0]],
                    {"value": -2})
    writes(family)
    along(family, layouts)
    shapes(family)
    return family


def writes(family):
    def setter(where):
        def function(x, v):
            y = x * 1
            y[where(x)] = v
            return y
        return function

    x, special_x, whole = numbers((3, 4), -3, 3), special((3, 4)), integers((3, 4), -9, 9)
    values = {
        "row": (lambda x: -1, (4,)), "range": (lambda x: (slice(None), slice(1, 3)), (3, 2)),
        "step": (lambda x: (slice(None, None, 2), slice(1, None)), (1, 3)),
        "rows": (lambda x: torch.tensor([2, 0]), (2, 4)),
        "outer": (lambda x: (torch.tensor([[2], [0]]), torch.tensor([1, 3])), (2, 2)),
        "mask": (lambda x: torch.tensor([True, False, True]), (2, 4)),
    }
    for name, (where, shape) in values.items():
        function = setter(where)
        family.case(f"write_{name}", function, [x, numbers(shape, -1, 1)])
        family.case(f"write_{name}", function, [x, numbers((), -1, 1)])
        family.case(f"write_{name}", function, [special_x, numbers(shape[-1:], -1, 1)])
        family.case(f"write_{name}", function, [numbers((4, 3), -3, 3), numbers(shape, -1, 1)], None,
                    {0: "t"})
        family.case(f"write_{name}", function, [whole, integers(shape, -9, 9)])
        family.case(f"write_{name}", function, [x.double(), numbers(shape, -1, 1, torch.float64)])


def along(family, layouts):
    index, few = torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.tensor([2, 0, 2])
    unique = torch.tensor([[0, 1, 2, 0], [2, 0, 1, 1]])
    source = numbers((2, 4), -1, 1, salt=5)
    for x, views in layouts[:5]:
        family.case("gather", lambda x, i: torch.gather(x, 0, i), [x, index], None, views)
        family.case("take_along_axis", lambda x, i: torch.take_along_dim(x, i, 1),
                    [x, integers((3, 2), 0, 3)], None, views)
        family.case("index_select", lambda x, i: torch.index_select(x, 1, i), [x, few], None, views)
        y = source.to(x.dtype) if x.is_floating_point() else integers((2, 4), -9, 9)
        family.case("scatter", lambda x, i, s: torch.scatter(x, 0, i, s), [x, unique, y], None, views)
        family.case("scatter_add", lambda x, i, s: torch.scatter_add(x, 0, i, s),
                    [x, torch.tensor([[0, 1, 2, 0], [0, 0, 2, 1]]), y], None, views)
        rows = numbers((3, 4), -1, 1, salt=6)
        rows = rows.to(x.dtype) if x.is_floating_point() else integers((3, 4), -9, 9)
        family.case("index_add", lambda x, i, s: torch.index_add(x, 0, i, s), [x, few, rows], None,
                    views)
    x, none = numbers((3, 4), -3, 3), torch.zeros(0, dtype=torch.int64)
    family.case("gather", lambda x, i: torch.gather(x, 0, i), [x, none.reshape(0, 4)])
    family.case("take_along_axis", lambda x, i: torch.take_along_dim(x, i, 1), [x, none.reshape(3, 0)])
    family.case("index_select", lambda x, i: torch.index_select(x, 1, i), [x, none])
    family.case("scatter", lambda x, i, s: torch.scatter(x, 0, i, s), [x, none.reshape(0, 4), source[:0]])
    family.case("scatter_add", lambda x, i, s: torch.scatter_add(x, 0, i, s),
                [x, none.reshape(0, 4), source[:0]])
    family.case("index_add", lambda x, i, s: torch.index_add(x, 0, i, s), [x, none, x[:0]])


def shapes(family):
    F = torch.nn.functional
    for x, views in ((numbers((3, 4), -3, 3), None), (numbers((4, 3), -3, 3), {0: "t"}),
                     (numbers((3, 6), -3, 3), {0: "slice"}), (special((3, 4)), None),
                     (integers((3, 4), -9, 9), None), (numbers((0, 4), -3, 3), None),
                     (numbers((1, 1), -3, 3), None)):
        for diagonal in (0, -1) if views else (0, 2):
            family.case("tril", lambda x, diagonal: torch.tril(x, diagonal), [x],
                        {"diagonal": diagonal}, views)
            family.case("triu", lambda x, diagonal: torch.triu(x, diagonal), [x],
                        {"diagonal": diagonal}, views)
        family.case("nonzero", torch.nonzero, [x], None, views)
        if x.dtype.is_floating_point and torch.equal(x, x) or x.dtype == torch.int64:
            family.case("sort", lambda x: torch.sort(x, stable=True).values, [x], None, views)
            family.case("argsort", lambda x: torch.argsort(x, stable=True), [x], None, views)
    ties = torch.tensor([[1.0, 0.0, 1.0, -0.0], [NAN, 2.0, INF, 2.0]])
    for descending in (False, True):
        family.case("argsort", lambda x, descending: torch.argsort(x, descending=bool(descending),
                                                                   stable=True),
                    [ties], {"descending": int(descending)})
        family.case("sort", lambda x, descending: torch.sort(x, descending=bool(descending),
                                                             stable=True).values,
                    [ties], {"descending": int(descending)})
    for k in (0, 1, 3, 4):
        family.case("topk", lambda x, k: torch.topk(x, k).values, [numbers((3, 4), -3, 3)], {"k": k})
    family.case("topk", lambda x, k: torch.topk(x, k).values, [integers((3, 6), -9, 9)], {"k": 2},
                {0: "slice"})
    family.case("topk", lambda x, k: torch.topk(x, k).values, [special((3, 4))], {"k": 2})
    for index, classes in (([0, 2, 1], 3), ([0, 2, 1], 5), ([0], 1), ([3, 3], -1), ([4, 0, 2], -1),
                           ([[1, 0], [0, 2]], 4)):
        family.case("one_hot", lambda i, classes: F.one_hot(i, classes), [torch.tensor(index)],
                    {"classes": classes})
