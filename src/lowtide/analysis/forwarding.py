"""Which leaves of a result are the same values as leaves of the operands.

A leaf that is not forwarded is a new value, and needs a buffer. Operations that only forward
read nothing: they cost no time and do not keep their operands alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import CustomCall, Dimensions, GetTupleElement

Leaves = tuple[int, ...]
"""The value numbers of the leaves of one shape, depth first."""

NEW: Final = -1
"""In place of a value number: the leaf is a new value."""

ANNOTATIONS: Final = frozenset(
    {"Sharding", "xla.sdy.FuncResultSharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
)
"""Custom calls that say how a value is sharded; with equal shapes they pass it on."""


class LeafCounts:
    """How many leaves shapes have, and where those of each element begin; counted once a shape."""

    def __init__(self) -> None:
        self._starts: dict[Shape, list[int]] = {}

    def of(self, shape: Shape) -> int:
        """Return the number of leaves: 1 for an array or a token, 0 for an empty tuple."""
        return self.starts(shape)[-1] if shape.is_tuple else 1

    def starts(self, shape: Shape) -> list[int]:
        """Return per element of a tuple the number of leaves in front of it, and the total."""
        starts = self._starts.get(shape)
        if starts is None:
            starts = [0]
            for element in shape.tuple_shapes:
                starts.append(starts[-1] + self.of(element))
            self._starts[shape] = starts
        return starts

    def position(self, shape: Shape, index: ShapeIndex) -> int:
        """Return the number of leaves in front of the subshape at `index`."""
        position = 0
        for element in index:
            position += self.starts(shape)[element]
            shape = shape.tuple_shapes[element]
        return position


def forwarded(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int] | None:
    """Return per leaf of the result the operand's value, or `NEW`; None where all are new.

    Calls, loops, conditionals and async-start are not answered here: what they return depends on
    what they run.
    """
    rule = _RULES.get(instruction.opcode)
    return None if rule is None else rule(instruction, operands, counts)


def reads_operands(instruction: Instruction, leaves: Sequence[int] | None) -> bool:
    """Whether operand values are read, given what `forwarded` says about the result."""
    return leaves is None or NEW in leaves or instruction.opcode in _WAITS


_WAITS: Final = frozenset(
    {
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_UPDATE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.COPY_DONE,
        Opcode.RECV_DONE,
        Opcode.SEND_DONE,
    }
)
"""Ends of asynchronous operations, which touch their buffers until then."""

_Rule = Callable[[Instruction, Sequence[Leaves], LeafCounts], Sequence[int] | None]


def _first_operand(_: Instruction, operands: Sequence[Leaves], __: LeafCounts) -> Sequence[int]:
    return operands[0]


def _all_operands(_: Instruction, operands: Sequence[Leaves], __: LeafCounts) -> Sequence[int]:
    return [value for leaves in operands for value in leaves]


def _element(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int]:
    index = instruction.attributes_as(GetTupleElement).index
    return _leaves_of_element(instruction.operands[0].shape, index, operands[0], counts)


def _leaves_of_element(
    shape: Shape, index: int, leaves: Leaves, counts: LeafCounts
) -> Sequence[int]:
    starts = counts.starts(shape)
    return leaves[starts[index] : starts[index + 1]]


def _copy(
    instruction: Instruction, operands: Sequence[Leaves], _: LeafCounts
) -> Sequence[int] | None:
    return operands[0] if instruction.shape.is_tuple else None


def _relabelled(
    instruction: Instruction, operands: Sequence[Leaves], _: LeafCounts
) -> Sequence[int] | None:
    source = instruction.operands[0].shape
    if instruction.opcode is Opcode.TRANSPOSE:
        dimensions = instruction.attributes_as(Dimensions).dimensions
        return operands[0] if is_bitcast_transpose(source, instruction.shape, dimensions) else None
    return operands[0] if is_bitcast_reshape(source, instruction.shape) else None


def _custom_call(
    instruction: Instruction, operands: Sequence[Leaves], _: LeafCounts
) -> Sequence[int] | None:
    if instruction.attributes_as(CustomCall).target not in ANNOTATIONS or len(operands) != 1:
        return None
    same = instruction.shape.compatible(instruction.operands[0].shape)
    return operands[0] if same else None


def _start(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int]:
    """The result is (operands, results, contexts ..): the operands stay where they are."""
    given = [value for leaves in operands for value in leaves]
    first = counts.of(instruction.shape.tuple_shapes[0]) if instruction.shape.is_tuple else 0
    return [*given[:first], *([NEW] * (counts.of(instruction.shape) - min(first, len(given))))]


def _copy_start(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int]:
    """The result is (target, source, context)."""
    elements = instruction.shape.tuple_shapes
    contexts = [NEW] * (counts.of(instruction.shape) - counts.starts(instruction.shape)[2])
    return [*([NEW] * counts.of(elements[0])), *operands[0], *contexts]


def _second_element(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int]:
    return _leaves_of_element(instruction.operands[0].shape, 1, operands[0], counts)


def _first_element(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int]:
    return _leaves_of_element(instruction.operands[0].shape, 0, operands[0], counts)


def _recv_done(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int]:
    data = _first_element(instruction, operands, counts)
    return [*data, *([NEW] * (counts.of(instruction.shape) - len(data)))]


_RULES: Final[dict[Opcode, _Rule]] = {
    Opcode.ADD_DEPENDENCY: _first_operand,
    Opcode.ALL_GATHER_DONE: _second_element,
    Opcode.ALL_GATHER_START: _start,
    Opcode.ALL_REDUCE_DONE: _first_operand,
    Opcode.ASYNC_DONE: _second_element,
    Opcode.ASYNC_UPDATE: _first_operand,
    Opcode.BITCAST: _first_operand,
    Opcode.COLLECTIVE_PERMUTE_DONE: _second_element,
    Opcode.COLLECTIVE_PERMUTE_START: _start,
    Opcode.COPY: _copy,
    Opcode.COPY_DONE: _first_element,
    Opcode.COPY_START: _copy_start,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DOMAIN: _first_operand,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.OPTIMIZATION_BARRIER: _first_operand,
    Opcode.RECV_DONE: _recv_done,
    Opcode.RESHAPE: _relabelled,
    Opcode.SEND: _start,
    Opcode.TRANSPOSE: _relabelled,
    Opcode.TUPLE: _all_operands,
}


# -- reshapes and transposes that move nothing -------------------------------------------------


def is_bitcast_transpose(source: Shape, result: Shape, dimensions: tuple[int, ...]) -> bool:
    """Whether the layouts make a transpose a mere change of dimension numbers.

    Result dimension `i` is dimension `dimensions[i]` of the source.
    """
    if source.layout is None or result.layout is None:
        return False
    order = [dimensions[i] for i in result.layout.minor_to_major if result.dimensions[i] != 1]
    kept = [i for i in source.layout.minor_to_major if source.dimensions[i] != 1]
    return order == kept and _same_storage(source, result)


def is_bitcast_reshape(source: Shape, result: Shape) -> bool:
    """Whether both shapes list the same elements in the same order in memory.

    Dimensions of size 1 do not count. Beyond them, both layouts must be row major, or nothing but
    dimensions of size 1 may differ.
    """
    if source.layout is None or result.layout is None or not _same_storage(source, result):
        return False
    before, after = _physical(source), _physical(result)
    if before == after:
        return True
    return _is_row_major(before) and _is_row_major(after)


def _physical(shape: Shape) -> tuple[list[int], list[int]]:
    """The sizes other than 1 in logical order, and their positions from major to minor."""
    layout = shape.layout
    order = reversed(layout.minor_to_major) if layout is not None else range(shape.rank)
    kept = [i for i, size in enumerate(shape.dimensions) if size != 1]
    rank = {dimension: position for position, dimension in enumerate(kept)}
    return [shape.dimensions[i] for i in kept], [rank[i] for i in order if i in rank]


def _is_row_major(physical: tuple[list[int], list[int]]) -> bool:
    return physical[1] == list(range(len(physical[0])))


def _same_storage(source: Shape, result: Shape) -> bool:
    """Whether element type, tiling, packing and memory space agree."""
    a, b = source.layout, result.layout
    if a is None or b is None or source.element_type is not result.element_type:
        return False
    if source.is_dynamic or result.is_dynamic or a.tiles or b.tiles:
        return False
    return a.element_size_in_bits == b.element_size_in_bits and a.memory_space == b.memory_space
