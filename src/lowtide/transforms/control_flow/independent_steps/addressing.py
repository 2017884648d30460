"""Slices and gathers whose places differ from step to step."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lowtide.builder.values import Op
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import DynamicSlice, Gather, Scatter
from lowtide.records import dataclass
from lowtide.transforms.control_flow.independent_steps.kinds import Kind, StepKind, StepNumber
from lowtide.transforms.control_flow.independent_steps.lanes import StepLanes


@dataclass(frozen=True, slots=True)
class SlicePlace:
    """Where step by step a slice of size 1 lies: along which dimension, and at which number."""

    dimension: int
    kind: StepNumber
    operand: int
    """Which operand of the instruction has the number."""


def slice_place(
    x: Instruction,
    sizes: tuple[int, ...],
    first: int,
    kinds: Mapping[Instruction, Kind],
    count: int,
) -> SlicePlace | None:
    """Return where a slice lies that goes one element on with each of `count` steps.

    `sizes` are those of the slice, `first` is the operand that says where it begins along the first
    dimension. It is whole along the other dimensions, and within the array in all steps.
    """
    whole = x.operands[0].shape.dimensions
    moved = [d for d, y in enumerate(x.operands[first:]) if isinstance(kinds[y], StepNumber)]
    if len(moved) != 1:
        return None
    (dimension,) = moved
    kind = kinds[x.operands[first + dimension]]
    assert isinstance(kind, StepNumber)
    low, high = kind.ends(count)
    if sizes[dimension] != 1 or abs(kind.by) != 1 or low < 0 or high >= whole[dimension]:
        return None
    if any(sizes[d] != whole[d] for d in range(len(whole)) if d != dimension):
        return None
    return SlicePlace(dimension, kind, first + dimension)


def written_place(
    x: Instruction, kinds: Mapping[Instruction, Kind], count: int
) -> SlicePlace | None:
    """Return where steps write, by dynamic-update-slice or scatter, one slice of their own each."""
    if x.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return slice_place(x, x.operands[1].shape.dimensions, 2, kinds, count)
    if len(x.operands) != 3 or not _is_overwriting(x.called_computations[0]):
        return None
    whole, updates = x.operands[0].shape.dimensions, x.operands[2].shape
    how, kind = x.attributes_as(Scatter), kinds[x.operands[1]]
    if not isinstance(kind, StepNumber) or len(how.scatter_dims_to_operand_dims) != 1:
        return None
    (dimension,) = how.scatter_dims_to_operand_dims
    low, high = kind.ends(count)
    if abs(kind.by) != 1 or low < 0 or high >= whole[dimension] or how.input_batching_dims:
        return None
    window = iter([updates.dimensions[d] for d in how.update_window_dims])
    sizes = [1 if d in how.inserted_window_dims else next(window) for d in range(len(whole))]
    one = [1 if d == dimension else size for d, size in enumerate(whole)]
    if sizes != one or updates.element_count != math.prod(one):
        return None
    return SlicePlace(dimension, kind, 1)


def _is_overwriting(computation: Computation) -> bool:
    """Whether an update takes the place of what was there."""
    root = computation.root
    return root.opcode is Opcode.PARAMETER and root is computation.parameters[1]


# -- dynamic-slice ---------------------------------------------------------------------------------


def reads_slices(x: Instruction, kinds: Mapping[Instruction, Kind]) -> bool:
    """Whether the numbers at which a slice begins are of one type, so that they make an array."""
    return len({y.shape.element_type for y in x.operands[1:]}) == 1


def dynamic_slice(lanes: StepLanes, x: Instruction) -> Op:
    """Return the slices of all steps."""
    array, starts = x.operands[0], x.operands[1:]
    sizes = x.attributes_as(DynamicSlice).sizes
    element_type = starts[0].shape.element_type
    if all(lanes.is_alike(y) for y in starts):
        zero = lanes.build.constant(0, element_type)
        given = [zero, *[lanes.alike(y) for y in starts]]
        return lanes.build.dynamic_slice(lanes.own(array), given, (lanes.count, *sizes))
    if lanes.kinds[array] in (StepKind.ALIKE, StepKind.STACK):
        place = slice_place(x, sizes, 1, lanes.kinds, lanes.steps)
        if place is not None:
            stack = lanes.alike(array)
            return lanes.slices(stack, place.dimension, place.kind, element_type)
    return _gathered(lanes, x, sizes)


def _gathered(lanes: StepLanes, x: Instruction, sizes: tuple[int, ...]) -> Op:
    build, (array, *starts) = lanes.build, x.operands
    whole = array.shape.dimensions
    moved = [d for d in range(len(sizes)) if sizes[d] != whole[d]]
    columns = [build.reshape(lanes.own(starts[d]), (lanes.count, 1)) for d in moved]
    if not columns:
        return lanes.own(array)
    indices = build.concatenate(columns, 1) if len(columns) > 1 else columns[0]
    shift = 0 if lanes.is_alike(array) else 1
    attributes = Gather(
        offset_dims=tuple(range(1, len(sizes) + 1)),
        collapsed_slice_dims=(),
        start_index_map=tuple([d + shift for d in moved]),
        index_vector_dim=1,
        slice_sizes=(1,) * shift + sizes,
        operand_batching_dims=(0,) * shift,
        start_indices_batching_dims=(0,) * shift,
    )
    return build.gather(lanes.own(array) if shift else lanes.alike(array), indices, attributes)


# -- gather ----------------------------------------------------------------------------------------


def gather(lanes: StepLanes, x: Instruction) -> Op:
    """Return what all steps gather."""
    array, indices = x.operands
    how = x.attributes_as(Gather)
    shift = 0 if lanes.is_alike(array) else 1
    further = 0 if lanes.is_alike(indices) else 1
    both = shift and further
    along = (0,) if both else ()
    attributes = Gather(
        offset_dims=_on(how.offset_dims, 1, () if both or not shift else (0,)),
        collapsed_slice_dims=_on(how.collapsed_slice_dims, shift),
        start_index_map=_on(how.start_index_map, shift),
        index_vector_dim=how.index_vector_dim + further,
        slice_sizes=((1 if both else lanes.count,) if shift else ()) + how.slice_sizes,
        operand_batching_dims=_on(how.operand_batching_dims, shift, along),
        start_indices_batching_dims=_on(how.start_indices_batching_dims, further, along),
        indices_are_sorted=how.indices_are_sorted and not further,
    )
    a = lanes.own(array) if shift else lanes.alike(array)
    b = lanes.own(indices) if further else lanes.alike(indices)
    return lanes.build.emit(Opcode.GATHER, [a, b], attributes)


def _on(dimensions: tuple[int, ...], shift: int, first: tuple[int, ...] = ()) -> tuple[int, ...]:
    return first + tuple([d + shift for d in dimensions])
