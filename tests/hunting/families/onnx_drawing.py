"""Nodes of ONNX graphs, drawn from tables: what each operator takes, and what it gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import prod
from random import Random
from typing import Any, Final, final

from lowtide.records import dataclass

FLOATS: Final = ("float32", "float64", "float16")
INTEGERS: Final = ("int64", "int32", "int8", "uint8")
NUMBERS: Final = (*FLOATS, *INTEGERS)
MOST: Final = 400
"""The most elements of a value."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A value: its name, NumPy's name of its type, its sizes, and whether it may be rounded."""

    name: str
    type: str
    sizes: tuple[int, ...]
    is_rounded: bool = False


@final
class GraphDraft:
    """A graph in the making; each line is an input, a constant or a node, as JSON."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.values: list[Drawn] = []
        self.operators: set[tuple[str, str]] = set()

    def input(self, type_: str, sizes: tuple[int, ...]) -> Drawn:
        """Add an input."""
        made = Drawn(f"v{len(self.lines)}", type_, sizes)
        self._line({"input": made.name, "type": type_, "sizes": sizes})
        self.values.append(made)
        return made

    def constant(self, values: Any, sizes: tuple[int, ...], type_: str = "int64") -> Drawn:
        """Add a constant of listed values."""
        made = Drawn(f"v{len(self.lines)}", type_, sizes)
        self._line({"constant": made.name, "type": type_, "sizes": sizes, "values": values})
        return made

    def node(
        self,
        operator: str,
        given: list[Drawn],
        type_: str,
        sizes: tuple[int, ...],
        rounds: bool = False,
        **attributes: Any,
    ) -> Drawn:
        """Add a node with one result."""
        return self.nodes(operator, given, [(type_, sizes)], rounds, attributes)[0]

    def nodes(
        self,
        operator: str,
        given: list[Drawn],
        shapes: list[tuple[str, tuple[int, ...]]],
        rounds: bool,
        attributes: dict[str, Any],
    ) -> list[Drawn]:
        """Add a node; return its results."""
        is_rounded = rounds or any(x.is_rounded for x in given)
        first = len(self.lines)
        made = [Drawn(f"v{first}.{i}", t, s, is_rounded) for i, (t, s) in enumerate(shapes)]
        names, results = [x.name for x in given], [x.name for x in made]
        line = {"node": operator, "of": names, "results": results, "with": attributes}
        self._line(line | {"rounded": is_rounded})
        self.values += made
        self.operators.add((operator, given[0].type if given else shapes[0][0]))
        return made

    def _line(self, document: dict[str, Any]) -> None:
        self.lines.append(json.dumps(document))

    def array(
        self,
        types: tuple[str, ...],
        least: int = 0,
        most: int = 4,
        sizes: tuple[int, ...] | None = None,
        exact: bool = False,
    ) -> Drawn:
        """Return a value of one of some types and of a rank: one that there is, or an input."""
        known = [
            x
            for x in self.values
            if x.type in types
            and least <= len(x.sizes) <= most
            and (sizes is None or x.sizes == sizes)
            and not (exact and x.is_rounded)
        ]
        if known and self.random.randrange(4):
            return self.random.choice(known[-4:])
        if sizes is None:
            rank = self.random.randint(max(least, min(1, most)), most)
            sizes = tuple([self.random.choice((1, 2, 3, 4, 5)) for _ in range(rank)])
        return self.input(self.random.choice(types), sizes)

    def like(self, x: Drawn, exact: bool = False) -> Drawn:
        """Return a value that broadcasts with another one."""
        sizes = list(x.sizes[self.random.randrange(len(x.sizes) + 1) :])
        if sizes and self.random.randrange(3) == 0:
            sizes[self.random.randrange(len(sizes))] = 1
        same = x.sizes if self.random.randrange(2) else tuple(sizes)
        return self.array((x.type,), 0, 9, same, exact=exact)


Maker = Callable[[GraphDraft], Drawn | None]

_UNARY: Final = {
    **dict.fromkeys(("Abs", "Neg", "Sign"), (("float32", "float64", "int32", "int64"), 0)),
    **dict.fromkeys(("Ceil", "Floor", "Round"), (FLOATS, 2)),
    **dict.fromkeys(("Relu", "Identity", "HardSwish", "HardSigmoid", "LeakyRelu"), (FLOATS, 1)),
    **dict.fromkeys(("Exp", "Sigmoid", "Tanh"), (FLOATS, 1)),
    **dict.fromkeys(("Sqrt", "Log", "Reciprocal"), (FLOATS, 3)),
    **dict.fromkeys(("Erf", "Sin", "Cos", "Softplus", "Softsign", "Elu", "Selu"), (FLOATS, 1)),
    **dict.fromkeys(("Atan", "Asinh", "Mish", "Gelu", "Celu", "Cosh"), (("float32",), 1)),
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Atanh"), (("float32",), 3)),
    "Sinh": (("float32",), 1),
    **dict.fromkeys(("ThresholdedRelu", "Shrink"), (("float32",), 2)),
    "Not": (("bool",), 0),
    "BitwiseNot": (INTEGERS, 0),
}
"""By operator the types, and 0 for exact results, 1 for rounded ones, 2 for steps.

3 is for rounded ones that have an end or a pole: roundings, and signs of zeros, must not cross it.
"""

_BINARY: Final = {
    **dict.fromkeys(("Add", "Sub", "Mul"), (NUMBERS, "")),
    **dict.fromkeys(("Max", "Min"), (NUMBERS, "")),
    "Div": (FLOATS, "rounds"),
    "Pow": (("float32", "float64"), "rounds"),
    "PRelu": (FLOATS, "steps"),
    **dict.fromkeys(("And", "Or", "Xor"), (("bool",), "")),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), (INTEGERS, "")),
    **dict.fromkeys(("Less", "Greater", "LessOrEqual", "GreaterOrEqual"), (NUMBERS, "compares")),
    "Equal": ((*NUMBERS, "bool"), "compares"),
}


def _unary(operator: str, draft: GraphDraft) -> Drawn:
    types, kind = _UNARY[operator]
    x = draft.array(types, exact=kind >= 2)
    return draft.node(operator, [x], x.type, x.sizes, kind in (1, 3))


def _binary(operator: str, draft: GraphDraft) -> Drawn | None:
    types, kind = _BINARY[operator]
    x = draft.array(types, exact=bool(kind))
    y = draft.like(x, exact=bool(kind))
    sizes = _broadcast(x.sizes, y.sizes)
    if sizes is None or (operator == "PRelu" and sizes != x.sizes):
        return None
    type_ = "bool" if kind == "compares" else x.type
    return draft.node(operator, [x, y], type_, sizes, kind == "rounds")


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    found = [max(x, y) if 1 in (x, y) or x == y else -1 for x, y in pairs]
    return None if -1 in found or prod(found) > MOST else tuple(found)


def _where(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS)
    test = draft.array(("bool",), 0, 4, x.sizes)
    y = draft.array((x.type,), 0, 4, x.sizes)
    return draft.node("Where", [test, x, y], x.type, x.sizes)


def _cast(draft: GraphDraft) -> Drawn:
    x = draft.array((*NUMBERS, "bool"), exact=True)
    type_ = draft.random.choice(("float32", "float64", "int32", "int64", "bool"))
    codes = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float64": 11}
    return draft.node("Cast", [x], type_, x.sizes, to=codes[type_])


def _transpose(draft: GraphDraft) -> Drawn:
    x = draft.array((*NUMBERS, "bool"))
    order = draft.random.sample(range(len(x.sizes)), len(x.sizes))
    return draft.node("Transpose", [x], x.type, tuple([x.sizes[i] for i in order]), perm=order)


def _reshape(draft: GraphDraft) -> Drawn:
    x = draft.array(NUMBERS)
    sizes = [*x.sizes]
    draft.random.shuffle(sizes)
    if len(sizes) > 1 and draft.random.randrange(2):
        sizes = [sizes[0] * sizes[1], *sizes[2:]]
    asked = [*sizes]
    if sizes and draft.random.randrange(2):
        asked[draft.random.randrange(len(sizes))] = -1
    return draft.node("Reshape", [x, draft.constant(asked, (len(sizes),))], x.type, tuple(sizes))


def _squeeze(draft: GraphDraft) -> Drawn:
    x = draft.array(NUMBERS, 0, 3)
    at = draft.random.randrange(len(x.sizes) + 1)
    sizes = (*x.sizes[:at], 1, *x.sizes[at:])
    wider = draft.node("Unsqueeze", [x, draft.constant([at], (1,))], x.type, sizes)
    if draft.random.randrange(2):
        return wider
    places = [i for i, n in enumerate(sizes) if n == 1]
    kept = tuple([n for n in sizes if n != 1])
    axes = draft.constant([i - len(sizes) for i in places], (len(places),))
    return draft.node("Squeeze", [wider, axes], x.type, kept)


def _concat(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS, 1)
    y = draft.array((x.type,), 1, 4, x.sizes)
    axis = draft.random.randrange(len(x.sizes))
    sizes = tuple([n * (2 if i == axis else 1) for i, n in enumerate(x.sizes)])
    return None if prod(sizes) > MOST else draft.node("Concat", [x, y], x.type, sizes, axis=axis)


def _slice(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS, 1)
    axis = draft.random.randrange(len(x.sizes))
    n, step = x.sizes[axis], draft.random.choice((1, 1, 2, -1, -2))
    start, end = draft.random.randint(-n - 1, n + 1), draft.random.randint(-n - 1, n + 1)
    count = len(range(n)[slice(start, end, step)])
    if step < 0 or not count:
        start, end, step, count = (n - 1, -n - 1, -1, n) if step < 0 else (0, n, 1, n)
    sizes = tuple([count if i == axis else k for i, k in enumerate(x.sizes)])
    parts = [draft.constant([v], (1,)) for v in (start, end, axis, step)]
    return draft.node("Slice", [x, *parts], x.type, sizes)


def _gather(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS, 1)
    axis = draft.random.randrange(len(x.sizes))
    n = x.sizes[axis]
    if draft.random.randrange(2):
        places = [draft.random.randrange(-n, n) for _ in range(prod(x.sizes))]
        indices = draft.constant(places, x.sizes)
        return draft.node("GatherElements", [x, indices], x.type, x.sizes, axis=axis)
    shape = draft.random.choice(((), (3,), (2, 2)))
    indices = draft.constant([draft.random.randrange(-n, n) for _ in range(prod(shape))], shape)
    sizes = (*x.sizes[:axis], *shape, *x.sizes[axis + 1 :])
    if prod(sizes) > MOST:
        return None
    return draft.node("Gather", [x, indices], x.type, sizes, axis=axis)


def _scatter(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int32", "int64"), 1)
    axis = draft.random.randrange(len(x.sizes))
    order = draft.random.sample(range(x.sizes[axis]), x.sizes[axis])
    rows = [order[(i // prod(x.sizes[axis + 1 :])) % x.sizes[axis]] for i in range(prod(x.sizes))]
    updates = draft.array((x.type,), 1, 4, x.sizes)
    hows = ("none", "add") if x.type == "float32" else ("none", "add", "max")
    how = draft.random.choice(hows)  # Which of a number and NaN is the greater one is open.
    given = [x, draft.constant(rows, x.sizes), updates]
    return draft.node("ScatterElements", given, x.type, x.sizes, axis=axis, reduction=how)


def _expand(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS, 0, 3)
    sizes = (draft.random.choice((1, 2, 3)), *[3 if n == 1 else n for n in x.sizes])
    if prod(sizes) > MOST:
        return None
    return draft.node("Expand", [x, draft.constant([*sizes], (len(sizes),))], x.type, sizes)


def _tile(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS, 1)
    times = [draft.random.choice((1, 1, 2, 3)) for _ in x.sizes]
    sizes = tuple([n * k for n, k in zip(x.sizes, times, strict=True)])
    if prod(sizes) > MOST:
        return None
    return draft.node("Tile", [x, draft.constant(times, (len(times),))], x.type, sizes)


def _pad(draft: GraphDraft) -> Drawn | None:
    x = draft.array(("float32", "float64", "int32", "int64"), 1)
    mode = draft.random.choice(("constant", "constant", "edge", "reflect", "wrap"))
    widest = [max(0, min(2, n - 1)) if mode != "constant" else 2 for n in x.sizes]
    low = [draft.random.randint(0, k) for k in widest]
    high = [draft.random.randint(0, k) for k in widest]
    sizes = tuple([n + a + b for n, a, b in zip(x.sizes, low, high, strict=True)])
    if prod(sizes) > MOST:
        return None
    pads = draft.constant([*low, *high], (2 * len(low),))
    return draft.node("Pad", [x, pads], x.type, sizes, mode=mode)


def _reduce(draft: GraphDraft) -> Drawn:
    operator = draft.random.choice(_REDUCTIONS)
    exact = operator in ("ReduceMax", "ReduceMin")
    x = draft.array(("float32", "float64", "int32") if exact else ("float32", "float64"), 1)
    axes = draft.random.sample(range(len(x.sizes)), draft.random.randint(1, len(x.sizes)))
    keep = draft.random.randrange(2)
    sizes = tuple([1 if i in axes else n for i, n in enumerate(x.sizes) if keep or i not in axes])
    given = [x, draft.constant(axes, (len(axes),))]
    return draft.node(operator, given, x.type, sizes, not exact, keepdims=keep)


_REDUCTIONS: Final = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSumExp"),
)


def _arg(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int32"), 1, exact=True)
    axis, keep = draft.random.randrange(len(x.sizes)), draft.random.randrange(2)
    sizes = tuple([1 if i == axis else n for i, n in enumerate(x.sizes) if keep or i != axis])
    operator = draft.random.choice(("ArgMax", "ArgMin"))
    last = draft.random.randrange(2)
    return draft.node(
        operator, [x], "int64", sizes, axis=axis, keepdims=keep, select_last_index=last
    )


def _softmax(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "float64"), 1)
    operator = draft.random.choice(("Softmax", "LogSoftmax"))
    axis = draft.random.randrange(-len(x.sizes), len(x.sizes))
    return draft.node(operator, [x], x.type, x.sizes, True, axis=axis)


def _cumsum(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int32", "int64"), 1)
    axis = draft.constant(draft.random.randrange(-len(x.sizes), len(x.sizes)), ())
    ways = {"exclusive": draft.random.randrange(2), "reverse": draft.random.randrange(2)}
    return draft.node("CumSum", [x, axis], x.type, x.sizes, x.type == "float32", **ways)


def _trilu(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int64"), 2)
    diagonal = draft.constant(draft.random.randint(-2, 2), ())
    return draft.node("Trilu", [x, diagonal], x.type, x.sizes, upper=draft.random.randrange(2))


def _matmul(draft: GraphDraft) -> Drawn | None:
    x = draft.array(("float32", "float64", "int32"), 2, 3)
    columns = draft.random.choice((1, 2, 5))
    y = draft.array((x.type,), 2, 2, (x.sizes[-1], columns))
    return draft.node("MatMul", [x, y], x.type, (*x.sizes[:-1], columns), x.type != "int32")


def _gemm(draft: GraphDraft) -> Drawn:
    turn_a, turn_b = draft.random.randrange(2), draft.random.randrange(2)
    x = draft.array(("float32",), 2, 2)
    rows, inner = x.sizes[::-1] if turn_a else x.sizes
    y = draft.array(("float32",), 2, 2, (4, inner) if turn_b else (inner, 4))
    bias = draft.array(("float32",), 1, 2, draft.random.choice(((4,), (1, 4), (rows, 1))))
    ways = {"transA": turn_a, "transB": turn_b, "alpha": 0.5, "beta": 2.0}
    return draft.node("Gemm", [x, y, bias], "float32", (rows, 4), True, **ways)


def _conv(draft: GraphDraft) -> Drawn | None:
    x = draft.array(("float32",), 3, 4)
    groups = draft.random.choice((1, x.sizes[1]))
    kernel = [draft.random.randint(1, min(3, n)) for n in x.sizes[2:]]
    strides = [draft.random.choice((1, 1, 2)) for _ in kernel]
    pads = [draft.random.randint(0, k - 1) for k in kernel] * 2
    weights = draft.array(("float32",), 3, 4, (2 * groups, x.sizes[1] // groups, *kernel))
    sizes = _windows(x.sizes[2:], kernel, strides, pads)
    ways = {"group": groups, "strides": strides, "pads": pads, "kernel_shape": kernel}
    whole = (x.sizes[0], 2 * groups, *sizes)
    return draft.node("Conv", [x, weights], "float32", whole, True, **ways)


def _pool(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32",), 3, 4)
    kernel = [draft.random.randint(1, min(3, n)) for n in x.sizes[2:]]
    strides = [draft.random.choice((1, 1, 2)) for _ in kernel]
    pads = [draft.random.randint(0, (k - 1) // 2) for k in kernel] * 2
    sizes = (*x.sizes[:2], *_windows(x.sizes[2:], kernel, strides, pads))
    operator = draft.random.choice(("MaxPool", "AveragePool"))
    ways: dict[str, Any] = {"strides": strides, "pads": pads, "kernel_shape": kernel}
    # Which of a number and NaN is greater is open, and ONNX's reference leaves NaN out of means.
    zero = draft.constant([0.0], (1,), "float32")
    is_number = draft.node("Equal", [x, x], "bool", x.sizes)
    x = draft.node("Where", [is_number, x, zero], x.type, x.sizes)
    if operator == "AveragePool":
        ways["count_include_pad"] = draft.random.randrange(2)
    return draft.node(operator, [x], "float32", sizes, operator == "AveragePool", **ways)


def _windows(
    sizes: tuple[int, ...], kernel: list[int], strides: list[int], pads: list[int]
) -> tuple[int, ...]:
    rows = zip(sizes, kernel, strides, pads, strict=False)
    return tuple([(n + 2 * p - k) // s + 1 for n, k, s, p in rows])


def _normalized(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32",), 2, 4)
    axis = draft.random.randrange(1, len(x.sizes))
    scale = draft.array(("float32",), 1, 4, x.sizes[axis:])
    ways = {"axis": axis, "epsilon": 0.01}
    return draft.node("LayerNormalization", [x, scale], "float32", x.sizes, True, **ways)


MAKERS: Final[dict[str, Maker]] = {
    **{x: partial(_unary, x) for x in _UNARY},
    **{x: partial(_binary, x) for x in _BINARY},
    "Where": _where,
    "Cast": _cast,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Unsqueeze": _squeeze,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "ScatterElements": _scatter,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "Softmax": _softmax,
    "CumSum": _cumsum,
    "Trilu": _trilu,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "MaxPool": _pool,
    "LayerNormalization": _normalized,
}
"""By operator, a function that draws it, or one that draws it among others."""
