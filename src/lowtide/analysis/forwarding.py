"""The parts of a result that are the same values as parts of the operands.

`passed_on` is the table, by index into the shapes; `forwarded` reads it leaf by leaf. A leaf that
is not forwarded is a new value, and needs a buffer. Operations that only forward read nothing: they
cost no time and do not keep their operands alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import CustomCall, Dimensions, GetTupleElement
from lowtide.ir.opcode import ENDS

Leaves = tuple[int, ...]
"""The value numbers of the leaves of one shape, depth first."""

NEW: Final = -1
"""In place of a value number: the leaf is a new value."""

ANNOTATIONS: Final = frozenset(
    {"Sharding", "xla.sdy.FuncResultSharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
)
"""Custom calls that say how a value is sharded; with equal shapes they pass it on."""


class LeafCounts:
    """The number of leaves of shapes, and the first one of each element; counted once a shape."""

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


class Forward(NamedTuple):
    """The subshape of the result at `output` is that of operand `operand` at `source`.

    With `tables`, the tables of addresses of its tuples are those of the operand too; without, the
    operation makes tables of its own for the same elements.
    """

    output: ShapeIndex
    operand: int
    source: ShapeIndex
    tables: bool = True


Forwards = Sequence[Forward]


def passed_on(instruction: Instruction) -> Forwards:
    """Return which parts of the operands are parts of the result, in order of `output`.

    The parts of the result do not overlap. Free reshapes and transposes and annotations pass
    their operand on. Calls, loops, conditionals and async-start are not answered here: what they
    return depends on what they run.
    """
    rule = _RULES.get(instruction.opcode)
    return () if rule is None else rule(instruction)


def passed_on_in_xla(instruction: Instruction) -> Forwards:
    """Return what `passed_on` does, as XLA's analyses have it.

    There every reshape, transpose and custom call makes a new value, and an async-update new
    contexts.
    """
    rule = _XLA_RULES.get(instruction.opcode)
    return () if rule is None else rule(instruction)


def forwarded(
    instruction: Instruction, operands: Sequence[Leaves], counts: LeafCounts
) -> Sequence[int] | None:
    """Return per leaf of the result the operand's value, or `NEW`; None where all are new.

    Calls, loops, conditionals and async-start are not answered here: what they return depends on
    what they run.
    """
    forwards = passed_on(instruction)
    if not forwards:
        return None
    leaves = [NEW] * counts.of(instruction.shape)
    for output, operand, source, _ in forwards:
        given = operands[operand]
        if source:
            shape = instruction.operands[operand].shape
            first = counts.position(shape, source)
            given = given[first : first + counts.of(shape.at(source))]
        if not output:
            return given
        start = counts.position(instruction.shape, output)
        leaves[start : start + len(given)] = given
    return leaves


def reads_operands(instruction: Instruction, leaves: Sequence[int] | None) -> bool:
    """Whether operand values are read, given what `forwarded` says about the result."""
    return leaves is None or NEW in leaves or instruction.opcode in ENDS


_Rule = Callable[[Instruction], Forwards]

_WHOLE_OPERAND: Final = (Forward((), 0, ()),)
_SECOND_ELEMENT: Final = (Forward((), 0, (1,), tables=False),)


def _first_operand(_: Instruction) -> Forwards:
    return _WHOLE_OPERAND


def _second_element(_: Instruction) -> Forwards:
    return _SECOND_ELEMENT


def _element(instruction: Instruction) -> Forwards:
    return (Forward((), 0, (instruction.attributes_as(GetTupleElement).index,)),)


def _each_operand(instruction: Instruction) -> Forwards:
    return [Forward((i,), i, ()) for i in range(len(instruction.operands))]


def _copy(instruction: Instruction) -> Forwards:
    """A copy of a tuple copies the table only."""
    return [Forward((i,), 0, (i,)) for i in range(len(instruction.shape.tuple_shapes))]


def _relabelled(instruction: Instruction) -> Forwards:
    source = instruction.operands[0].shape
    if instruction.opcode is Opcode.TRANSPOSE:
        dimensions = instruction.attributes_as(Dimensions).dimensions
        free = is_bitcast_transpose(source, instruction.shape, dimensions)
    else:
        free = is_bitcast_reshape(source, instruction.shape)
    return _WHOLE_OPERAND if free else ()


def _custom_call(instruction: Instruction) -> Forwards:
    operands = instruction.operands
    if instruction.attributes_as(CustomCall).target not in ANNOTATIONS or len(operands) != 1:
        return ()
    return _WHOLE_OPERAND if instruction.shape.compatible(operands[0].shape) else ()


def _start(instruction: Instruction) -> Forwards:
    """The result is (operands, results, contexts ..): the operands stay where they are."""
    if not instruction.shape.is_tuple:
        return ()
    operands = instruction.operands
    if operands[0].shape.is_tuple or not instruction.shape.tuple_shapes[0].is_tuple:
        return (Forward((0,), 0, ()),)
    return [Forward((0, i), i, ()) for i in range(len(operands))]


def _copy_start(_: Instruction) -> Forwards:
    """The result is (target, source, context)."""
    return (Forward((1,), 0, ()),)


def _copy_done(_: Instruction) -> Forwards:
    return (Forward((), 0, (0,)),)


def _recv_done(_: Instruction) -> Forwards:
    """The result is (data, token)."""
    return (Forward((0,), 0, (0,)),)


def _async_update(instruction: Instruction) -> Forwards:
    count = min(2, len(instruction.shape.tuple_shapes))
    return [Forward((i,), 0, (i,), tables=False) for i in range(count)]


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
    Opcode.COPY_DONE: _copy_done,
    Opcode.COPY_START: _copy_start,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DOMAIN: _first_operand,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.OPTIMIZATION_BARRIER: _first_operand,
    Opcode.RECV_DONE: _recv_done,
    Opcode.RESHAPE: _relabelled,
    Opcode.SEND: _start,
    Opcode.TRANSPOSE: _relabelled,
    Opcode.TUPLE: _each_operand,
}

PASSING: Final = frozenset(_RULES)
"""Operations that may pass parts of operands on, beside those that run computations."""

_MAKING_IN_XLA: Final = frozenset({Opcode.CUSTOM_CALL, Opcode.RESHAPE, Opcode.TRANSPOSE})

_XLA_RULES: Final[dict[Opcode, _Rule]] = {
    **{opcode: rule for opcode, rule in _RULES.items() if opcode not in _MAKING_IN_XLA},
    Opcode.ASYNC_UPDATE: _async_update,
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
