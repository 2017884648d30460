"""Storage: where a result overwrites an operand by definition.

The rules of XLA's alias analysis: `in_place_pairs` must share one buffer, so a copy is needed
where the operand is still wanted. What else an assigner may save, `may_share.py` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from lowtide.ir.attributes import (
    Aliasing,
    Async,
    CollectivePermute,
    CustomCall,
    Fusion,
    GetTupleElement,
    Parameter,
)
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ShapeIndex
from lowtide.ops.overwriting import keeps_order, lies_alike, reads_target_elsewhere
from lowtide.ops.table import TABLE

Position = tuple[int, ShapeIndex]
"""An operand number and an index into the operand's shape."""

Pair = tuple[Position, ShapeIndex]
"""An operand position and the output index that shares its buffer."""

# -- the pairs ---------------------------------------------------------------------------------


def in_place_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    """Return the pairs of operand and output positions which always occupy one buffer.

    An operation that would have to move elements, or that reads of the operand what it has
    overwritten, has its result elsewhere, unless the module declares the pair.
    """
    find = _MUST.get(instruction.opcode)
    if find is not None:
        return find(instruction)
    pairs = _FIXED[instruction.opcode]
    return tuple([x for x in pairs if _stays(instruction, x)]) if pairs else ()


def _stays(instruction: Instruction, pair: Pair) -> bool:
    """Whether the elements of a result lie where those of the operand do."""
    (operand, index), output = pair
    source, result = instruction.operands[operand].shape.at(index), instruction.shape.at(output)
    return source.is_tuple or lies_alike(source, result)


def each_operand(instruction: Instruction, count: int) -> tuple[Pair, ...]:
    """Return the pairs of each of `count` operands with the result, or its element of a tuple."""
    if count == 1 and not instruction.shape.is_tuple:
        return (((0, ()), ()),)
    return tuple([((i, ()), (i,)) for i in range(count)])


def _scatter_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    pairs = each_operand(instruction, len(instruction.operands) // 2)
    return tuple([x for x in pairs if _stays(instruction, x)])


def _all_reduce_start_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    return each_operand(instruction, len(instruction.operands))


def _permute_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    if not instruction.attributes_as(CollectivePermute).slice_sizes:
        return ()
    start = instruction.opcode is Opcode.COLLECTIVE_PERMUTE_START
    return (((1, ()), (1,) if start else ()),)


def _declared(aliasing: tuple[Aliasing, ...]) -> tuple[Pair, ...]:
    return tuple([((x.operand, x.operand_index), x.output_index) for x in aliasing])


def _custom_call_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    return _declared(instruction.attributes_as(CustomCall).output_to_operand_aliasing)


def _async_start_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    pairs = dict.fromkeys(_declared(instruction.attributes_as(Async).output_to_operand_aliasing))
    wrapped = instruction.called_computations[0].root
    for (operand, index), output in in_place_pairs(wrapped):
        source, found = source_of(wrapped.operands[operand], index)
        is_read_once = wrapped.operands.count(wrapped.operands[operand]) == 1
        if source.opcode is Opcode.PARAMETER and is_read_once:
            number = source.attributes_as(Parameter).number
            pairs[(number, found), (1, *output)] = None
    return tuple(pairs)


def _fusion_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    """Return the declared pairs and those of in-place operations at the root of the fusion."""
    pairs = dict.fromkeys(_declared(instruction.attributes_as(Fusion).output_to_operand_aliasing))
    updated = [x.pair for x in fused_updates(instruction) if not x.has_conflict]
    pairs |= dict.fromkeys([x for x in updated if _is_read_as_it_lies(instruction, x[0])])
    return tuple(pairs)


def _is_read_as_it_lies(fusion: Instruction, place: Position) -> bool:
    """Whether an operand lies as the parameter that stands for it within the fusion."""
    number, index = place
    parameter = fusion.called_computations[0].parameters[number]
    return lies_alike(fusion.operands[number].shape.at(index), parameter.shape.at(index))


class FusedUpdate(NamedTuple):
    """An operation in a fusion that updates an operand of the fusion.

    `has_conflict` says that the fusion reads of the operand what it may have overwritten, or has
    the updated array as another result before.
    """

    pair: Pair
    has_conflict: bool


def fused_updates(fusion: Instruction) -> Iterator[FusedUpdate]:
    """Yield what updates operands of a fusion, for each result that is made so."""
    root = fusion.called_computations[0].root
    updated: set[Position] = set()
    for output, _ in fusion.shape.leaves():
        source, index = source_of(root, output)
        for (operand, operand_index), written in in_place_pairs(source):
            if written != index:
                continue
            target = _target_behind(source.operands[operand], operand_index)
            if target is not None:
                is_again = target.place in updated
                updated.add(target.place)
                has_conflict = is_again or _has_conflict(fusion, source, operand, target)
                yield FusedUpdate((target.place, output), has_conflict)


class _Target(NamedTuple):
    """A parameter that is updated: what names it, as in `reads_target_elsewhere`.

    `others` are read by fusions within, before they update it.
    """

    place: Position
    names: dict[Instruction, bool]
    others: list[Instruction]


def _target_behind(instruction: Instruction, index: ShapeIndex) -> _Target | None:
    """Return the parameter of the fusion which is overwritten, through fusions within."""
    names: dict[Instruction, bool] = {}
    others: list[Instruction] = []
    is_kept = True
    while instruction.opcode is not Opcode.PARAMETER:
        names[instruction] = is_kept
        if instruction.opcode is Opcode.BITCAST:
            before = instruction.operands[0]
            is_kept = is_kept and keeps_order(before.shape, instruction.shape)
            instruction = before
        elif instruction.opcode is Opcode.FUSION:
            pairs = [pair for pair in in_place_pairs(instruction) if pair[1] == index]
            if not pairs:
                return None
            (number, index), _ = pairs[0]
            others += [x for i, x in enumerate(instruction.operands) if i != number]
            is_kept = False
            instruction = instruction.operands[number]
        elif instruction.opcode is Opcode.GET_TUPLE_ELEMENT:
            index = (instruction.attributes_as(GetTupleElement).index, *index)
            instruction = instruction.operands[0]
        elif instruction.opcode is Opcode.TUPLE and index:
            instruction, index = instruction.operands[index[0]], index[1:]
        else:
            return None
    named = [x for x in instruction.users if source_of(x, ()) == (instruction, index)]
    names |= dict.fromkeys(named if index else (instruction,), is_kept)
    return _Target((instruction.attributes_as(Parameter).number, index), names, others)


def _has_conflict(fusion: Instruction, update: Instruction, operand: int, target: _Target) -> bool:
    """Whether a fusion reads, at any place but the next one, a parameter that it updates."""
    root = fusion.called_computations[0].root
    others = [*target.others]
    for output, _ in fusion.shape.leaves():
        source, index = source_of(root, output)
        if source.opcode is Opcode.PARAMETER:
            if (source.attributes_as(Parameter).number, index) == target.place:
                return True
        elif source is not update:
            others.append(source)
    return reads_target_elsewhere(update, operand, target.names, others)


def source_of(instruction: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
    """Return the instruction that makes the value at `index`, through tuples and bitcasts."""
    while True:
        if instruction.opcode is Opcode.TUPLE and index:
            instruction, index = instruction.operands[index[0]], index[1:]
        elif instruction.opcode is Opcode.GET_TUPLE_ELEMENT:
            index = (instruction.attributes_as(GetTupleElement).index, *index)
            instruction = instruction.operands[0]
        elif instruction.opcode is Opcode.BITCAST:
            instruction = instruction.operands[0]
        else:
            return instruction, index


_FIXED: Final[dict[Opcode, tuple[Pair, ...]]] = {
    opcode: tuple([((operand, ()), output) for operand, output in definition.in_place])
    for opcode, definition in TABLE.items()
}
"""The pairs of operations for which they do not depend on the instruction."""

_MUST: Final[dict[Opcode, Callable[[Instruction], tuple[Pair, ...]]]] = {
    Opcode.SCATTER: _scatter_pairs,
    Opcode.ALL_REDUCE_START: _all_reduce_start_pairs,
    Opcode.COLLECTIVE_PERMUTE: _permute_pairs,
    Opcode.COLLECTIVE_PERMUTE_START: _permute_pairs,
    Opcode.CUSTOM_CALL: _custom_call_pairs,
    Opcode.FUSION: _fusion_pairs,
    Opcode.ASYNC_START: _async_start_pairs,
}

# -- kernels that say in which order they read and write ----------------------------------------


ROWS: Final = '{"kernel":"rows"}'
"""The backend configuration of a fusion that works row by row: it reads all of a row of each
operand before it writes a row of a result, the reductions running along the last dimensions."""

ATTENTION: Final = '{"kernel":"attention"}'
"""The backend configuration of a fusion of two dots with a computation along rows between them."""


ONE_PASS: Final = '{"kernel":"one_pass"}'
"""The backend configuration of a fusion that visits each point of the space of its reductions or
updates once: there it reads its operands, and writes, adds up or updates with what it makes."""

EPILOGUE: Final = '{"kernel":"epilogue"}'
"""The backend configuration of a contraction with an epilogue, which adds up elsewhere than in its
results. Each element of these is written once, when all that the epilogue reads of it has been
read."""


LOOPS: Final = '{"kernel":"loops"}'
"""The backend configuration of a fusion of small loops over different spaces, one for each result,
which run one after the other."""


def works_in_rows(fusion: Instruction) -> bool:
    """Whether a fusion is known to read whole rows before it writes them."""
    return fusion.annotations.backend_config == ROWS
