"""Operations that write into an operand: by what they are, or because they say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from lowtide.checking.fused_updates import NAMING, is_only_returned, reads_only_what_it_replaces
from lowtide.checking.storage_order import same_places
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import (
    Aliasing,
    CollectivePermute,
    CustomCall,
    Fusion,
    GetTupleElement,
    Parameter,
)

Pair = tuple[int, ShapeIndex, ShapeIndex]
"""An operand, the index of its element, the index of the result's element that replaces it."""


def in_place_pairs(instruction: Instruction) -> tuple[Pair, ...]:
    """Return which elements of operands an operation turns into elements of its result."""
    rule = _RULES.get(instruction.opcode)
    if rule is None:
        return ()
    found = []
    for operand, index, output in dict.fromkeys(rule(instruction)):
        source, result = instruction.operands[operand].shape.at(index), instruction.shape.at(output)
        if same_places(source, result) or _only_renames(instruction, source, result):
            found.append((operand, index, output))
    return tuple(found)


def _only_renames(instruction: Instruction, source: Shape, result: Shape) -> bool:
    """Whether a pair of unequal shapes can lie in one place all the same.

    Within a fusion, bitcasts around what is written name the same bytes anew; a custom call has
    said that it works so.
    """
    return instruction.opcode in _RENAMING and source.nbytes == result.nbytes


_RENAMING: Final = frozenset({Opcode.CUSTOM_CALL, Opcode.FUSION})


def _only(number: int) -> Callable[[Instruction], Iterable[Pair]]:
    return lambda instruction: [(number, (), ())]


def _first(instruction: Instruction, count: int) -> Iterator[Pair]:
    """Result i replaces operand i."""
    for number in range(count):
        yield number, (), ((number,) if instruction.shape.is_tuple else ())


def _scatter(instruction: Instruction) -> Iterable[Pair]:
    return _first(instruction, len(instruction.operands) // 2)


def _all_reduce_start(instruction: Instruction) -> Iterable[Pair]:
    return _first(instruction, len(instruction.operands))


def _permute(instruction: Instruction) -> Iterator[Pair]:
    """Each array of the destination, of which there may be several, becomes one of the result."""
    if instruction.attributes_as(CollectivePermute).slice_sizes:
        output = (1,) if instruction.opcode is Opcode.COLLECTIVE_PERMUTE_START else ()
        for index, _ in instruction.operands[1].shape.leaves():
            yield 1, index, (*output, *index)


def _declared(pairs: Iterable[Aliasing]) -> Iterator[Pair]:
    for pair in pairs:
        yield pair.operand, pair.operand_index, pair.output_index


def _custom_call(instruction: Instruction) -> Iterator[Pair]:
    return _declared(instruction.attributes_as(CustomCall).output_to_operand_aliasing)


# -- fusions -----------------------------------------------------------------------------------


def _fusion(instruction: Instruction) -> Iterator[Pair]:
    """The declared pairs, and those of operations whose results are results of the fusion.

    What is returned twice replaces the operand once: the other result has a place of its own.
    """
    yield from _declared(instruction.attributes_as(Fusion).output_to_operand_aliasing)
    root = instruction.called_computations[0].root
    replaced = set[Value]()
    for output, _ in instruction.shape.leaves():
        found = _updated(*_behind(root, output))
        if found is not None and found not in replaced:
            replaced.add(found)
            parameter, index = found
            number = parameter.attributes_as(Parameter).number
            given = instruction.operands[number].shape.at(index)
            if same_places(given, parameter.shape.at(index)):
                yield number, index, output


Value = tuple[Instruction, ShapeIndex]
"""What makes a value, and the index of it in what that makes."""


def _updated(maker: Instruction, index: ShapeIndex) -> Value | None:
    """The parameter, or an element of it, that an operation in a fusion replaces by a result.

    There may be fusions within between them. None where the value replaced is still needed.
    """
    value = maker, index
    while value == (maker, index) or value[0].opcode is Opcode.FUSION:
        written = _written(*value)
        if written is None:
            return None
        update, (operand, place) = value[0], written
        value = _behind(update.operands[operand], place)
        if value[0].opcode not in (Opcode.FUSION, Opcode.PARAMETER):
            return None
        if update is maker and not is_only_returned(update):
            return None
        if not reads_only_what_it_replaces(_names(value), update, operand):
            return None
    return value


def _written(maker: Instruction, index: ShapeIndex) -> tuple[int, ShapeIndex] | None:
    """The operand, and the index of its element, that an operation replaces by its own `index`."""
    for operand, operand_index, output in in_place_pairs(maker):
        if output == index:
            return operand, operand_index
    return None


def _names(value: Value) -> list[Instruction]:
    """The instructions that are a value: what makes it, if that is an array, and what names it."""
    found = [value[0]]
    seen = {value[0]}
    for x in found:
        fresh = [user for user in x.users if user.opcode in NAMING and user not in seen]
        seen.update(fresh)
        found += fresh
    return [x for x in found if x.shape.is_array and _behind(x, ()) == value]


def _behind(instruction: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
    """What makes an element, seen through operations that only name it."""
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


_RULES: Final[dict[Opcode, Callable[[Instruction], Iterable[Pair]]]] = {
    Opcode.ALL_REDUCE_START: _all_reduce_start,
    Opcode.COLLECTIVE_PERMUTE: _permute,
    Opcode.COLLECTIVE_PERMUTE_START: _permute,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DYNAMIC_UPDATE_SLICE: _only(0),
    Opcode.FUSION: _fusion,
    Opcode.RAGGED_ALL_TO_ALL: _only(1),
    Opcode.SCATTER: _scatter,
    Opcode.SET_DIMENSION_SIZE: _only(0),
}
