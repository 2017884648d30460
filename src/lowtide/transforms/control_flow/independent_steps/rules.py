"""A table of how operations are done for many steps at once, and of which can be.

The values of the steps lie along a first dimension, so most operations keep their attributes, with
dimensions one further on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import (
    Dimensions,
    Dot,
    DotDimensions,
    Pad,
    PaddingDimension,
    PrecisionConfig,
    ReduceWindow,
    Slice,
    Window,
    WindowDimension,
)
from lowtide.ir.shape import array_shape
from lowtide.ops.dot_roles import dot_roles
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.transforms.control_flow.independent_steps import addressing, inner_loops
from lowtide.transforms.control_flow.independent_steps.kinds import Kind, StepKind
from lowtide.transforms.control_flow.independent_steps.lanes import StepLanes

Kinds = Mapping[Instruction, Kind]


@dataclass(frozen=True, slots=True)
class StepRule:
    """Whether an operation can be done for many steps, and what does it."""

    fits: Callable[[Instruction, Kinds], bool]
    write: Callable[[StepLanes, Instruction], Op | None]


def _always(x: Instruction, kinds: Kinds) -> bool:
    return True


# -- elementwise -----------------------------------------------------------------------------------


def _elementwise(lanes: StepLanes, x: Instruction) -> Op:
    operands = [_as_large(lanes, y, x) for y in x.operands]
    shape = array_shape(x.shape.element_type, (lanes.count, *x.shape.dimensions))
    return lanes.build.emit(x.opcode, operands, x.attributes, shape=shape)


def _as_large(lanes: StepLanes, y: Instruction, x: Instruction) -> Op:
    """An operand of an elementwise operation, also where it is one number for all elements."""
    value = lanes.own(y)
    if y.shape.rank == x.shape.rank:
        return value
    return lanes.build.broadcast(value, (lanes.count, *x.shape.dimensions), (0,))


def _same_elements(x: Instruction, kinds: Kinds) -> bool:
    """Whether operands have one element each for an element of the result, or one for all."""
    dimensions = x.shape.dimensions
    return all(y.shape.is_array and y.shape.dimensions in ((), dimensions) for y in x.operands)


def _bitcast(lanes: StepLanes, x: Instruction) -> Op:
    shape = array_shape(x.shape.element_type, (lanes.count, *x.shape.dimensions))
    return lanes.build.emit(Opcode.BITCAST_CONVERT, [lanes.own(x.operands[0])], shape=shape)


# -- moves -----------------------------------------------------------------------------------------


def _broadcast(lanes: StepLanes, x: Instruction) -> Op:
    places = [0, *[d + 1 for d in x.attributes_as(Dimensions).dimensions]]
    sizes = (lanes.count, *x.shape.dimensions)
    return lanes.build.broadcast(lanes.own(x.operands[0]), sizes, places)


def _reshape(lanes: StepLanes, x: Instruction) -> Op:
    return lanes.build.reshape(lanes.own(x.operands[0]), (lanes.count, *x.shape.dimensions))


def _transpose(lanes: StepLanes, x: Instruction) -> Op:
    order = [0, *[d + 1 for d in x.attributes_as(Dimensions).dimensions]]
    return lanes.build.transpose(lanes.own(x.operands[0]), order)


def _reverse(lanes: StepLanes, x: Instruction) -> Op:
    places = [d + 1 for d in x.attributes_as(Dimensions).dimensions]
    return lanes.build.reverse(lanes.own(x.operands[0]), places)


def _concatenate(lanes: StepLanes, x: Instruction) -> Op:
    (dimension,) = x.attributes_as(Dimensions).dimensions
    return lanes.build.concatenate([lanes.own(y) for y in x.operands], dimension + 1)


def _slice(lanes: StepLanes, x: Instruction) -> Op:
    part = x.attributes_as(Slice)
    whole = Slice((0, *part.starts), (lanes.count, *part.limits), (1, *part.strides))
    return lanes.build.emit(Opcode.SLICE, [lanes.own(x.operands[0])], whole)


def _pad(lanes: StepLanes, x: Instruction) -> Op:
    padding = Pad((PaddingDimension(0, 0, 0), *x.attributes_as(Pad).dimensions))
    operands = [lanes.own(x.operands[0]), lanes.alike(x.operands[1])]
    return lanes.build.emit(Opcode.PAD, operands, padding)


def _has_fixed_padding(x: Instruction, kinds: Kinds) -> bool:
    return kinds[x.operands[1]] is StepKind.ALIKE


# -- sums and products -----------------------------------------------------------------------------


def _starts_alike(x: Instruction, kinds: Kinds) -> bool:
    """Whether a reduction of one array begins with the same value in all steps."""
    return len(x.operands) == 2 and kinds[x.operands[1]] is StepKind.ALIKE


def _reduce(lanes: StepLanes, x: Instruction) -> Op:
    places = Dimensions(tuple([d + 1 for d in x.attributes_as(Dimensions).dimensions]))
    return _folded(lanes, x, places)


def _reduce_window(lanes: StepLanes, x: Instruction) -> Op:
    window = Window((WindowDimension(1), *x.attributes_as(ReduceWindow).window.dimensions))
    return _folded(lanes, x, ReduceWindow(window))


def _folded(lanes: StepLanes, x: Instruction, attributes: Dimensions | ReduceWindow) -> Op:
    operands = [lanes.own(x.operands[0]), lanes.alike(x.operands[1])]
    called = [SubComputation(y) for y in x.called_computations]
    shape = array_shape(x.shape.element_type, (lanes.count, *x.shape.dimensions))
    return lanes.build.emit(x.opcode, operands, attributes, called, shape)


def _keeps_order(x: Instruction, kinds: Kinds) -> bool:
    """Whether the dimension of the steps comes first in a product without a transpose of it."""
    if StepKind.ALIKE not in [kinds[y] for y in x.operands]:
        return True
    left, right = dot_roles(x)
    return not left.batch and (kinds[x.operands[0]] is not StepKind.ALIKE or not right.free)


def _dot(lanes: StepLanes, x: Instruction) -> Op:
    sides = list(zip(x.operands, dot_roles(x), strict=True))
    if lanes.is_alike(x.operands[0]):
        sides.reverse()  # the steps are the rows of the product
    both = not any(lanes.is_alike(y) for y in x.operands)
    operands, contracting, batch = [], [], []
    for y, roles in sides:
        shift = 0 if lanes.is_alike(y) else 1
        operands.append(lanes.own(y) if shift else lanes.alike(y))
        contracting.append(tuple([d + shift for d in roles.contracted]))
        batch.append(((0,) if both else ()) + tuple([d + shift for d in roles.batch]))
    dimensions = DotDimensions(contracting[0], contracting[1], batch[0], batch[1])
    shape = array_shape(x.shape.element_type, (lanes.count, *x.shape.dimensions))
    return lanes.build.emit(
        Opcode.DOT, operands, Dot(dimensions, _precision(lanes, x)), shape=shape
    )


def _precision(lanes: StepLanes, x: Instruction) -> PrecisionConfig:
    """What is asked of the products, for operands in the order in which they are written."""
    given = x.attributes_as(Dot).precision
    if not lanes.is_alike(x.operands[0]):
        return given
    return replace(given, operand_precision=given.operand_precision[::-1])


_RULES: Final[Mapping[Opcode, StepRule]] = {
    Opcode.BITCAST_CONVERT: StepRule(_always, _bitcast),
    Opcode.BROADCAST: StepRule(_always, _broadcast),
    Opcode.CONCATENATE: StepRule(_always, _concatenate),
    Opcode.DOT: StepRule(_keeps_order, _dot),
    Opcode.DYNAMIC_SLICE: StepRule(addressing.reads_slices, addressing.dynamic_slice),
    Opcode.GATHER: StepRule(_always, addressing.gather),
    Opcode.GET_TUPLE_ELEMENT: StepRule(inner_loops.is_result, inner_loops.result),
    Opcode.PAD: StepRule(_has_fixed_padding, _pad),
    Opcode.REDUCE: StepRule(_starts_alike, _reduce),
    Opcode.REDUCE_WINDOW: StepRule(_starts_alike, _reduce_window),
    Opcode.RESHAPE: StepRule(_always, _reshape),
    Opcode.REVERSE: StepRule(_always, _reverse),
    Opcode.SLICE: StepRule(_always, _slice),
    Opcode.TRANSPOSE: StepRule(_always, _transpose),
    Opcode.TUPLE: StepRule(inner_loops.is_start, inner_loops.start),
    Opcode.WHILE: StepRule(inner_loops.is_of_scalars, inner_loops.start),
}
_ELEMENTWISE: Final = StepRule(_same_elements, _elementwise)


def rule_of(x: Instruction) -> StepRule | None:
    """Return how an operation is done for many steps, None where nobody knows."""
    if x.opcode in _RULES:
        return _RULES[x.opcode]
    is_elementwise = TABLE[x.opcode].elementwise and not x.called_computations
    return _ELEMENTWISE if is_elementwise else None
