"""Reductions of arrays and windows, sorts, the greatest elements, and scatters of windows."""

from __future__ import annotations

from typing import Final

from tests.hunting.arrays import (
    COMPLEX,
    F8,
    FLOATS,
    INTEGERS,
    DrawnArray,
    braced,
    row_major,
    shape_text,
)
from tests.hunting.operations.reducers import (
    arg_reducer,
    comparator,
    initial,
    pair_combiner,
    reducer,
    reducers_of,
)
from tests.hunting.operations.windows import DrawnWindow, draw_running, draw_window
from tests.hunting.scope import Maker, Scope, joined

_MOST_STEPS: Final = 300
"""Of a scan, which the evaluator takes one by one."""


def _reduce(scope: Scope, type_: str) -> DrawnArray | None:
    form = scope.random.randrange(6)
    if form == 0 and type_ in ("f32", "s32", "f64", "s8", "bf16"):
        return _best(scope, type_)
    if form == 1 and type_ not in F8:
        return _reduce_pair(scope, type_)
    opcode = scope.random.choice(reducers_of(type_))
    if type_ in F8 and opcode != "add":
        return None
    x = scope.array(type_, scope.sizes(1, 4))
    start = scope.constant(type_, initial(opcode, type_))
    callee, noise = reducer(scope, opcode, type_)
    dropped = [i for i in range(x.rank) if scope.chance(2)]
    sizes = tuple([x.sizes[i] for i in range(x.rank) if i not in dropped])
    attributes = f"dimensions={braced(dropped)}, to_apply={callee}"
    return scope.emit(type_, sizes, f"reduce({joined([x, start])}), {attributes}", x.noise + noise)


def _reduce_pair(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = scope.sizes(1, 3)
    arrays = [scope.array(type_, sizes, 0) for _ in range(2)]
    callee, noise, opcodes = pair_combiner(scope, type_)
    starts = [scope.constant(type_, initial(opcode, type_)) for opcode in opcodes]
    dropped = [i for i in range(len(sizes)) if scope.chance(2)]
    left = tuple([sizes[i] for i in range(len(sizes)) if i not in dropped])
    attributes = f"dimensions={braced(dropped)}, to_apply={callee}"
    parts = [(type_, left)] * 2
    return scope.emit_parts(parts, f"reduce({joined([*arrays, *starts])}), {attributes}", noise)[0]


def _best(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = scope.sizes(1, 3)
    x = scope.array(type_, sizes, 0)
    place = scope.random.randrange(len(sizes))
    numbers = scope.emit("s32", sizes, f"iota(), iota_dimension={place}")
    direction = scope.random.choice(("GE", "LE"))
    opcode = "maximum" if direction == "GE" else "minimum"
    starts = [scope.constant(type_, initial(opcode, type_)), scope.constant("s32", "2147483647")]
    callee = arg_reducer(scope, type_, direction)
    left = tuple([sizes[i] for i in range(len(sizes)) if i != place])
    expression = f"reduce({joined([x, numbers, *starts])}), dimensions={{{place}}}"
    parts = [(type_, left), ("s32", left)]
    return scope.emit_parts(parts, f"{expression}, to_apply={callee}")[scope.random.randrange(2)]


def _reduce_window(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ in F8:
        return None
    opcode = scope.random.choice(reducers_of(type_))
    x = scope.array(type_, scope.sizes(1, 4))
    if scope.chance(4) and all(x.sizes):
        window = draw_running(scope, x.sizes)
    else:
        window = draw_window(scope, x.sizes, spreads=True)
    start = scope.constant(type_, initial(opcode, type_))
    callee, noise = reducer(scope, opcode, type_)
    expression = f"reduce-window({joined([x, start])}), window={window.text}, to_apply={callee}"
    return scope.emit(type_, window.result, expression, x.noise + noise)


def _select_and_scatter(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ in COMPLEX or type_ == "pred":
        return None
    x = scope.array(type_, scope.sizes(1, 4), 0)
    window: DrawnWindow = draw_window(scope, x.sizes, spreads=False)
    source = scope.array(type_, window.result)
    start = scope.constant(type_, "0")
    direction = scope.random.choice(("GE", "LE"))
    chosen = scope.draft.computation(
        "select",
        [
            f"a = {type_}[] parameter(0)",
            f"b = {type_}[] parameter(1)",
            f"ROOT c = pred[] compare(a, b), direction={direction}",
        ],
    )
    callee, noise = reducer(scope, "add", type_)
    attributes = f"window={window.text}, select={chosen}, scatter={callee}"
    expression = f"select-and-scatter({joined([x, source, start])}), {attributes}"
    return scope.emit(type_, x.sizes, expression, source.noise + noise)


def _sort(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ in COMPLEX:
        return None
    sizes = scope.sizes(1, 3)
    place = scope.random.randrange(len(sizes))
    types = [type_, *[scope.type() for _ in range(scope.random.choice((0, 0, 1, 2)))]]
    arrays = [scope.array(t, sizes, 0 if i == 0 else 1) for i, t in enumerate(types)]
    order = comparator(scope, types, scope.random.choice(("LT", "GT")))
    expression = f"sort({joined(arrays)}), dimensions={{{place}}}, is_stable=true, to_apply={order}"
    if len(types) == 1:
        return scope.emit(type_, sizes, expression)
    noise = max([x.noise for x in arrays])
    parts = scope.emit_parts([(t, sizes) for t in types], expression, noise)
    return scope.random.choice(parts)


def _topk(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in (*FLOATS, *F8, *INTEGERS):
        return None
    x = scope.array(type_, scope.sizes(1, 2), 0)
    k = scope.random.randint(0, x.sizes[-1])
    sizes = (*x.sizes[:-1], k)
    expression = f"topk({x.name}), k={k}, largest={'true' if scope.chance(2) else 'false'}"
    return scope.emit_parts([(type_, sizes), ("s32", sizes)], expression)[0]


def _scan(scope: Scope, type_: str) -> DrawnArray | None:
    """A running reduction along a dimension, forwards or backwards, and where it ends."""
    if type_ in F8:
        return None
    sizes = scope.sizes(1, 3)
    place = scope.random.randrange(len(sizes))
    if sizes[place] > _MOST_STEPS:
        return None
    opcode = scope.random.choice(reducers_of(type_))
    rest = (*sizes[:place], *sizes[place + 1 :])
    part = shape_text(type_, rest, row_major(len(rest)))
    lines = [
        f"x = {part} parameter(0)",
        f"c = {part} parameter(1)",
        f"y = {part} {opcode}(c, x)",
        f"ROOT r = ({part}, {part}) tuple(y, y)",
    ]
    callee = scope.draft.computation("step", lines)
    given = [scope.array(type_, sizes, 0), scope.array(type_, rest, 0)]
    reverse = ", is_reverse=true" if scope.chance(2) else ""
    expression = f"scan({joined(given)}), dimensions={{{place}}}, num_carries=1{reverse}"
    noise = int(opcode in ("add", "multiply") and type_ not in INTEGERS)
    parts = [(type_, sizes), (type_, rest)]
    made = scope.emit_parts(parts, f"{expression}, to_apply={callee}", noise)
    return made[scope.random.randrange(2)]


MAKERS: Final[dict[str, Maker]] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scan": _scan,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "topk": _topk,
}
