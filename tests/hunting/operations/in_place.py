"""Operations that write over an operand, beside every kind of reader of that operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.hunting.arrays import COMPLEX, F8, DrawnArray, braced
from tests.hunting.operations.reducers import (
    combiner,
    comparator,
    initial,
    pair_combiner,
    reducer,
    reducers_of,
)
from tests.hunting.scope import Scope, bounds, halved, joined

Update = Callable[[Scope, DrawnArray, DrawnArray], DrawnArray | None]
Reader = Callable[[Scope, DrawnArray, tuple[int, ...]], DrawnArray]


# -- operations that write over their first operand ----------------------------------------------


def _update_slice(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray:
    starts = [scope.index(2) for _ in target.sizes]
    given = joined([target, new, *starts])
    noise = max(target.noise, new.noise)
    return scope.emit(target.type, target.sizes, f"dynamic-update-slice({given})", noise)


def _rows(scope: Scope, target: DrawnArray, new: DrawnArray) -> tuple[DrawnArray, str]:
    """The numbers of rows to scatter into, and how."""
    indices = scope.array("s32", (new.sizes[0], 1), 0)
    attributes = (
        f"update_window_dims={braced(list(range(1, target.rank)))}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    )
    return indices, attributes


def _scatter(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray | None:
    if new.sizes[1:] != target.sizes[1:]:
        return None
    indices, attributes = _rows(scope, target, new)
    callee, noise = combiner(scope, target.type)
    expression = f"scatter({joined([target, indices, new])}), {attributes}, to_apply={callee}"
    noise += max(target.noise, new.noise)
    return scope.emit(target.type, target.sizes, expression, noise)


def _scatter_two(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray | None:
    if new.sizes[1:] != target.sizes[1:]:
        return None
    other = scope.array(target.type, target.sizes)
    indices, attributes = _rows(scope, target, new)
    callee, noise, _ = pair_combiner(scope, target.type)
    given = joined([target, other, indices, new, new])
    noise += max(target.noise, new.noise, other.noise)
    parts = [(target.type, target.sizes)] * 2
    expression = f"scatter({given}), {attributes}, to_apply={callee}"
    return scope.random.choice(scope.emit_parts(parts, expression, noise))


def _sort(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray | None:
    if target.type in COMPLEX or target.type in F8 or target.noise:
        return None
    place = scope.random.randrange(target.rank)
    arrays = [target]
    if new.sizes == target.sizes and not new.noise:
        arrays.append(new)
    order = comparator(scope, [x.type for x in arrays], "LT")
    expression = f"sort({joined(arrays)}), dimensions={{{place}}}, is_stable=true, to_apply={order}"
    if len(arrays) == 1:
        return scope.emit(target.type, target.sizes, expression)
    return scope.emit_parts([(x.type, x.sizes) for x in arrays], expression)[0]


def _elementwise(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray | None:
    if new.sizes != target.sizes:
        return None
    opcode = "xor" if target.type == "pred" else "subtract"
    noise = max(target.noise, new.noise)
    return scope.emit(target.type, target.sizes, f"{opcode}({joined([target, new])})", noise)


def _dot(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray | None:
    """A product added to the target, which a fusion may compute in its place."""
    if target.type not in ("f32", "f64", "s32", "bf16") or target.rank != 2:
        return None
    (inner,) = halved([scope.size()], scope.draft.most // (max(target.sizes) or 1))
    a = scope.array(target.type, (target.sizes[0], inner), 0)
    b = scope.array(target.type, (inner, target.sizes[1]), 0)
    noise = 0 if target.type == "s32" else 1
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    product = scope.emit(target.type, target.sizes, f"dot({joined([a, b])}), {dims}", noise)
    noise = max(noise, target.noise)
    return scope.emit(target.type, target.sizes, f"add({joined([product, target])})", noise)


def _solve(scope: Scope, target: DrawnArray, new: DrawnArray) -> DrawnArray | None:
    rows = {"f32": 8, "f64": 40}.get(target.type, -1)  # Solutions of more may have no end.
    if target.rank != 2 or target.noise or target.sizes[0] > rows:
        return None
    square = (target.sizes[0], target.sizes[0])
    matrix = target if target.sizes == square and scope.chance(2) else None
    matrix = matrix or scope.array(target.type, square, 0)
    expression = (
        f"triangular-solve({joined([matrix, target])}), left_side=true, lower=true, "
        "unit_diagonal=true, transpose_a=NO_TRANSPOSE"
    )
    return scope.emit(target.type, target.sizes, expression, 2)


UPDATES: Final[dict[str, Update]] = {
    "dynamic-update-slice": _update_slice,
    "scatter": _scatter,
    "scatter of two": _scatter_two,
    "sort": _sort,
    "element-wise": _elementwise,
    "dot": _dot,
    "triangular-solve": _solve,
}
"""By name: operations on a target and something new, which come out in the target's place."""


# -- what reads the target -----------------------------------------------------------------------


def _unrelated(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    return scope.array(x.type, sizes, x.noise, fresh=2)


def _sliced(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    starts = [scope.random.randint(0, a - b) for a, b in zip(x.sizes, sizes, strict=True)]
    limits = [a + b for a, b in zip(starts, sizes, strict=True)]
    part = bounds(starts, limits, [1] * x.rank)
    return scope.emit(x.type, sizes, f"slice({x.name}), {part}", x.noise)


def _dynamic(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    given = joined([x, *[scope.index(2) for _ in x.sizes]])
    expression = f"dynamic-slice({given}), dynamic_slice_sizes={braced(sizes)}"
    return scope.emit(x.type, sizes, expression, x.noise)


def _reversed(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    chosen = [i for i in range(x.rank) if scope.chance(2)] or [0]
    whole = scope.emit(x.type, x.sizes, f"reverse({x.name}), dimensions={braced(chosen)}", x.noise)
    return _sliced(scope, whole, sizes)


def _changed(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    opcode = "not" if x.type == "pred" or x.type[0] == "u" else "negate"
    whole = scope.emit(x.type, x.sizes, f"{opcode}({x.name})", x.noise)
    return _sliced(scope, whole, sizes)


def _transposed(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    order = list(range(x.rank))[::-1]
    turned = tuple([x.sizes[i] for i in order])
    whole = scope.emit(x.type, turned, f"transpose({x.name}), dimensions={braced(order)}", x.noise)
    return scope.fitted(whole, x.type, sizes)


def _summed(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    opcode = reducers_of(x.type)[0] if x.type in F8 else reducers_of(x.type)[-1]
    callee, noise = reducer(scope, opcode, x.type)
    start = scope.constant(x.type, initial(opcode, x.type))
    rest = x.sizes[1:]
    expression = f"reduce({joined([x, start])}), dimensions={{0}}, to_apply={callee}"
    sums = scope.emit(x.type, rest, expression, x.noise + noise)
    dims = braced(list(range(1, x.rank)))
    whole = scope.emit(x.type, x.sizes, f"broadcast({sums.name}), dimensions={dims}", sums.noise)
    return _sliced(scope, whole, sizes)


def _gathered(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    indices = scope.array("s32", (sizes[0], 1), 0)
    part = (min(1, x.sizes[0]), *sizes[1:])
    if x.sizes[0] == 0:
        return _unrelated(scope, x, sizes)
    attributes = (
        f"offset_dims={braced(list(range(1, x.rank)))}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={braced(part)}"
    )
    return scope.emit(x.type, sizes, f"gather({joined([x, indices])}), {attributes}", x.noise)


def _itself(scope: Scope, x: DrawnArray, sizes: tuple[int, ...]) -> DrawnArray:
    return x if sizes == x.sizes else _sliced(scope, x, sizes)


READERS: Final[dict[str, Reader]] = {
    "nothing": _unrelated,
    "slice": _sliced,
    "dynamic-slice": _dynamic,
    "reverse": _reversed,
    "element-wise": _changed,
    "transpose": _transposed,
    "reduce": _summed,
    "gather": _gathered,
    "itself": _itself,
}
"""By name: arrays of some sizes, no greater than those of the target, that are made of it."""

LATER: Final = ("nobody", "before", "after", "result", "output")
"""Who else reads the target: something before the update, after it, of both, the caller."""


def draw_update(scope: Scope, update: str, reader: str, type_: str) -> DrawnArray | None:
    """Draw an update in place of a target, which `reader` reads too; None where it cannot be."""
    sizes = scope.sizes(2, 2) if update in ("dot", "triangular-solve") else scope.sizes(1, 3)
    target = scope.array(type_, sizes, 0 if update in ("sort", "triangular-solve") else 1)
    part = tuple([scope.random.randint(min(1, x), x) for x in sizes])
    if update.startswith("scatter"):
        part = (part[0], *sizes[1:])
    if update in ("element-wise", "sort"):
        part = sizes
    new = READERS[reader](scope, target, part)
    if new.noise > 1:
        return None
    later = scope.random.choice(LATER)
    if later == "before":
        _changed(scope, target, sizes)
    made = UPDATES[update](scope, target, new)
    if made is None:
        return None
    scope.draft.notes.add(("update", update, reader))
    scope.draft.notes.add(("update", update, f"{later} later"))
    if later == "after":
        return _changed(scope, target, sizes)
    if later == "result":
        scope.random.choice((_changed, _reversed))(scope, made, sizes)
    if later == "output":
        scope.draft.wanted.append(target.name)
    return made
