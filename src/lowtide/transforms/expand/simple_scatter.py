"""Scatters of one slice, or of one element for each row, as what fuses and needs no indices.

One slice at an index that is known to be within bounds is a dynamic-update-slice. One element for
each batch, put into an array that repeats a scalar, is a selection by the place: that array is then
made in one piece, or not at all where its reader fuses.
"""

from __future__ import annotations

import math
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode, array_shape
from lowtide.ir.attributes import Constant, Scatter
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import applied, expander, expansion, is_elementwise
from lowtide.transforms.simplify.bounds import Bounds, bounds_of
from lowtide.transforms.simplify.support import Made


@expander(Opcode.SCATTER)
def scatter_of_one_slice(x: Instruction, at: Rewriter) -> Made:
    """scatter(x, i, u) => dynamic-update-slice(x, f(dynamic-slice(x, i), u), i)"""
    parts = _parts(x)
    if parts is None:
        return None
    operand, indices, updates, numbers = parts
    sizes = operand.shape.dimensions
    taken = _window(x)
    if math.prod(updates.shape.dimensions) != math.prod(taken):
        return None
    indexed = numbers.scatter_dims_to_operand_dims
    for number, i in enumerate(indexed):
        low, high = _element_bounds(indices, number)
        if low < 0 or high > sizes[i] - taken[i]:
            return None
    vector = at.build.reshape(at(indices), (len(indexed),)) if indexed else None
    zero = at.build.constant(0, indices.shape.element_type)
    starts = [zero] * len(sizes)
    for number, i in enumerate(indexed):
        assert vector is not None
        starts[i] = at.build.reshape(at.build.slice(vector, [number], [number + 1]), ())
    new = at.build.reshape(at(updates), taken)
    (combine,) = x.called_computations
    if not _takes_update(x):
        old = at.build.dynamic_slice(at(operand), starts, taken)
        (new,) = applied(at.build, combine, [old, new], tuple(taken))
    return at.build.dynamic_update_slice(at(operand), new, starts)


@expander(Opcode.SCATTER)
def scatter_into_rows(x: Instruction, at: Rewriter) -> Made:
    """scatter(broadcast(v), i, u) => select(iota == broadcast(i), f(v, u), v), one for each row"""
    parts = _parts(x)
    if parts is None:
        return None
    operand, _, updates, numbers = parts
    sizes, taken = operand.shape.dimensions, _window(x)
    if operand.opcode is not Opcode.BROADCAST or operand.operands[0].shape.rank:
        return None
    batching, indexed = numbers.input_batching_dims, numbers.scatter_dims_to_operand_dims
    others = [i for i in range(len(sizes)) if i not in indexed and i not in batching]
    if not indexed or any(taken[i] != 1 for i in indexed):
        return None
    if any(taken[i] != sizes[i] for i in others) or _update_count(x) != _rows(x):
        return None
    hits = [_is_at(at, x, number) for number in range(len(indexed))]
    hit = hits[0]
    for other in hits[1:]:
        hit = hit & other
    new = _spread(at(updates), _places_of_updates(x), sizes)
    (combine,) = x.called_computations
    (met,) = applied(at.build, combine, [at(operand), new], sizes)
    return at.build.select(hit, met, at(operand))


# -- what a scatter names ----------------------------------------------------------------------

_Parts = tuple[Instruction, Instruction, Instruction, Scatter]


def _parts(x: Instruction) -> _Parts | None:
    """Operand, indices, updates and numbers, where it has one of each and vectors come last."""
    if len(x.operands) != 3 or not is_elementwise(x.called_computations[0]):
        return None
    operand, indices, updates = x.operands
    numbers = x.attributes_as(Scatter)
    (combine,) = x.called_computations
    kinds = {y.shape.element_type for y in (operand, updates, *combine.parameters, combine.root)}
    if len(kinds) > 1 or 0 in operand.shape.dimensions or not updates.shape.element_count:
        return None
    if numbers.index_vector_dim != indices.shape.rank - 1:
        return None
    if set(numbers.scatter_dims_to_operand_dims) & set(numbers.input_batching_dims):
        return None
    return operand, indices, updates, numbers


def _window(x: Instruction) -> list[int]:
    """How much of each dimension of the operand one update covers."""
    numbers = x.attributes_as(Scatter)
    updates = x.operands[2].shape.dimensions
    left = iter(sorted(numbers.update_window_dims))
    single = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    return [1 if i in single else updates[next(left)] for i in range(x.shape.rank)]


def _rows(x: Instruction) -> int:
    return math.prod([x.shape.dimensions[i] for i in x.attributes_as(Scatter).input_batching_dims])


def _update_count(x: Instruction) -> int:
    return math.prod(x.operands[1].shape.dimensions[:-1])


def _takes_update(x: Instruction) -> bool:
    root = x.called_computations[0].root
    return root is x.called_computations[0].parameters[1]


def _element_bounds(vector: Instruction, number: int) -> Bounds:
    """Bounds of one element of an array whose last dimension, only, has several."""
    if vector.opcode is Opcode.CONSTANT and not vector.attributes_as(Constant).literal.elided:
        value = int(vector.attributes_as(Constant).literal.array.reshape(-1)[number])
        return value, value
    if vector.opcode is Opcode.RESHAPE and vector.operands[0].shape.rank:
        return _element_bounds(vector.operands[0], number)
    if vector.opcode is Opcode.CONCATENATE:
        for part in vector.operands:
            if number < part.shape.element_count:
                return _element_bounds(part, number)
            number -= part.shape.element_count
    if vector.opcode is not Opcode.CLAMP:
        return bounds_of(vector)
    low, high = [_limit(vector.operands[i], number) for i in (0, 2)]
    return min(low[0], high[0]), high[1]


def _limit(limit: Instruction, number: int) -> Bounds:
    return _element_bounds(limit, number) if limit.opcode is Opcode.CONSTANT else bounds_of(limit)


# -- one element for each row ------------------------------------------------------------------


def _places_of_rows(x: Instruction) -> list[int | None]:
    """For each dimension of the indices, but that of vectors, the one of the operand that it is."""
    numbers = x.attributes_as(Scatter)
    pairs = zip(numbers.scatter_indices_batching_dims, numbers.input_batching_dims, strict=True)
    places = dict(pairs)
    return [places.get(i) for i in range(x.operands[1].shape.rank - 1)]


def _places_of_updates(x: Instruction) -> list[int | None]:
    """For each dimension of the updates the one of the operand that it is."""
    numbers = x.attributes_as(Scatter)
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windows = iter([i for i in range(x.shape.rank) if i not in dropped])
    rows = iter(_places_of_rows(x))
    window = set(numbers.update_window_dims)
    found = [next(windows if i in window else rows) for i in range(x.operands[2].shape.rank)]
    indexed = set(numbers.scatter_dims_to_operand_dims)
    return [None if i in indexed else i for i in found]


def _spread(value: Op, places: list[int | None], sizes: tuple[int, ...]) -> Op:
    """A value along the dimensions where its own are, those of size 1 without a place dropped."""
    kept = [i for i, place in enumerate(places) if place is not None]
    value = value.builder.reshape(value, [value.dimensions[i] for i in kept])
    where = [place for place in places if place is not None]
    order = sorted(range(len(where)), key=where.__getitem__)
    if order != list(range(len(where))):
        value = value.builder.transpose(value, order)
    return value.builder.broadcast(value, sizes, sorted(where))


def _is_at(at: Rewriter, x: Instruction, number: int) -> Op:
    """Whether each element of the result is where element `number` of its index vector says."""
    indices = at(x.operands[1])
    ends = [*indices.dimensions[:-1], number + 1]
    index = at.build.slice(indices, [*[0] * (indices.rank - 1), number], ends)
    index = at.build.reshape(index, indices.dimensions[:-1])
    dimension = x.attributes_as(Scatter).scatter_dims_to_operand_dims[number]
    if index.element_type.bounds[1] < x.shape.dimensions[dimension]:
        index = at.build.convert(index, ElementType.S64)
    places = at.build.iota(array_shape(index.element_type, x.shape.dimensions), dimension)
    return places.eq(_spread(index, _places_of_rows(x), x.shape.dimensions))


RULES: Final = (scatter_of_one_slice, scatter_into_rows)

PASSES: Final = (
    Pass(
        "expand-simple-scatter",
        expansion(RULES),
        "Writes scatters of one slice, or of one element for each row, in other operations.",
        *example(
            """
HloModule m

-add {
- a = f32[] parameter(0)
- b = f32[] parameter(1)
- ROOT c = f32[] add(a, b)
+ENTRY main {
+ iota = s32[3,8] iota(), iota_dimension=1
+ i = s32[3,1] parameter(0)
+ slice = s32[3,1] slice(i), slice={[0:3], [0:1]}
+ reshape = s32[3] reshape(slice)
+ reshape.1 = s32[3] reshape(reshape)
+ broadcast = s32[3,8] broadcast(reshape.1), dimensions={0}
+ compare = pred[3,8] compare(iota, broadcast), direction=EQ
+ zero = f32[] constant(0)
+ x = f32[3,8] broadcast(zero), dimensions={}
+ u = f32[3] parameter(1)
+ reshape.2 = f32[3] reshape(u)
+ broadcast.1 = f32[3,8] broadcast(reshape.2), dimensions={0}
+ add = f32[3,8] add(x, broadcast.1)
+ ROOT select = f32[3,8] select(compare, add, x)
}

-ENTRY main {
- i = s32[3,1] parameter(0)
- u = f32[3] parameter(1)
- zero = f32[] constant(0)
- x = f32[3,8] broadcast(zero), dimensions={}
- ROOT y = f32[3,8] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1}, \
scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, \
index_vector_dim=1, to_apply=add
-}
-"""
        ),
    ),
)
