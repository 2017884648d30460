"""Fusions that update an operand, and whether they still find all that they read of it.

The updated elements are stored in any order, beside whatever else the fusion computes. So each path
from the operand to a result has to lead through the update, and to bring to each element of it
nothing but the element that lies there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lowtide.checking.storage_order import element_bits, is_row_major, same_places
from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.attributes import Constant, Dimensions, GetTupleElement, Slice
from lowtide.ir.kept import kept
from lowtide.ops.table import TABLE

Path = tuple[Instruction, bool]
"""What is made of the operand; whether it has all elements of it, or those that are replaced."""


def reads_only_what_it_replaces(names: list[Instruction], update: Instruction, number: int) -> bool:
    """Whether all that a fusion makes of an operand is fit to be overwritten by an update.

    `names` are the instructions that are the operand, the update's operand `number` among them.
    """
    target = update.operands[number]
    stack: list[Path] = []
    for x in names:
        for user in readers(x):
            if user in names:
                continue
            if user is update:
                if [i for i, y in enumerate(update.operands) if y is x] != [number] and not (
                    _replaces_all(update, x, target)
                ):
                    return False
            elif not _counts_alike(x, target, names):
                return False
            else:
                stack.append((x, True))
        if x.is_root:
            return False
    return _all_end_in(list(dict.fromkeys(stack)), set(names), update)


def _all_end_in(stack: list[Path], names: set[Instruction], update: Instruction) -> bool:
    """Whether all paths from some values lead into what an update writes, element by element."""
    seen = set(stack)
    while stack:
        value, is_all = stack.pop()
        if value.is_root:
            return False
        for user in readers(value):
            if user in names or (user is update and value in names):
                continue
            if user is update:
                if not _is_written(value, is_all, update):
                    return False
                continue
            if is_all and _is_cut_out(value, user, update):
                step = user, False
            elif _keeps_numbers(value.shape, user):
                step = user, is_all
            else:
                return False
            if step not in seen:
                seen.add(step)
                stack.append(step)
    return True


def _is_written(value: Instruction, is_all: bool, update: Instruction) -> bool:
    """Whether an update writes a value, each element where the one came from that it is made of."""
    if update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE:
        return False
    if [i for i, x in enumerate(update.operands) if x is value] != [1]:
        return False
    return not is_all or value.shape.element_count == update.shape.element_count


def _replaces_all(update: Instruction, value: Instruction, target: Instruction) -> bool:
    """Whether an update writes an array over itself."""
    places = [i for i, x in enumerate(update.operands) if x is value]
    is_slice = update.opcode is Opcode.DYNAMIC_UPDATE_SLICE
    return is_slice and value is target and places == [0, 1]


def is_only_returned(update: Instruction) -> bool:
    """Whether what is made of an updated array is nothing but its names."""
    made = [update]
    for x in made:
        for user in readers(x):
            if user.opcode not in NAMING:
                return False
            if user.opcode is not Opcode.TUPLE and user not in made:
                made.append(user)
    return True


NAMING: Final = frozenset({Opcode.BITCAST, Opcode.GET_TUPLE_ELEMENT, Opcode.TUPLE})


def _counts_alike(x: Instruction, target: Instruction, names: list[Instruction]) -> bool:
    """Whether elements have the same row-major numbers under two names of one array."""
    paths = [list(_names_down(y, names)) for y in (x, target)]
    return any(a in paths[1] for a in paths[0])


def _names_down(name: Instruction, names: list[Instruction]) -> Iterator[Instruction]:
    """The names behind a name, as long as these keep its numbers."""
    yield name
    while name.opcode is Opcode.BITCAST and name.operands[0] in names:
        if not _keeps_numbers(name.operands[0].shape, name):
            return
        name = name.operands[0]
        yield name


def _keeps_numbers(source: Shape, user: Instruction) -> bool:
    """Whether element i of a result needs of a value its element i, counted row major."""
    result = user.shape
    if not source.is_array or not result.is_array:
        return False
    if user.opcode is Opcode.BITCAST:
        is_alike = same_places(source, result) or (is_row_major(source) and is_row_major(result))
        return is_alike and element_bits(source) == element_bits(result)
    if user.opcode is Opcode.BROADCAST:
        places = list(user.attributes_as(Dimensions).dimensions)
        return places == sorted(places) and source.element_count == result.element_count
    if user.opcode is Opcode.RESHAPE:
        return True
    return TABLE[user.opcode].elementwise and source.dimensions == result.dimensions


def _is_cut_out(value: Instruction, user: Instruction, update: Instruction) -> bool:
    """Whether a user takes of a value what the update replaces in an array of those sizes."""
    if update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or user.operands.count(value) > 1:
        return False
    sizes, part = update.shape.dimensions, update.operands[1].shape.dimensions
    if value.shape.dimensions != sizes or user.shape.dimensions != part:
        return False
    starts = update.operands[2:]
    if user.opcode is Opcode.DYNAMIC_SLICE:
        pairs = zip(user.operands[1:], starts, strict=True)
        is_first = user.operands[0] is value
        return is_first and all(a is b or _known(a) == _known(b) is not None for a, b in pairs)
    if user.opcode is not Opcode.SLICE:
        return False
    cut = user.attributes_as(Slice)
    rows = zip(cut.starts, cut.strides, starts, sizes, part, strict=True)
    return all(stride == 1 and first == _clamped(s, all_ - n) for first, stride, s, all_, n in rows)


def _clamped(start: Instruction, last: int) -> int | None:
    number = _known(start)
    return None if number is None else max(0, min(number, last))


def _known(start: Instruction) -> int | None:
    """The number that a scalar is known to be."""
    if start.opcode is not Opcode.CONSTANT or start.shape.rank:
        return None
    literal = start.attributes_as(Constant).literal
    return None if literal.elided else int(literal.array.item())


def readers(x: Instruction) -> list[Instruction]:
    """Return the users of a value on which the result of its computation depends, in order."""
    needed = kept(x.parent, "checking: needed", lambda: _needed(x.parent))
    return [user for user in x.users if user in needed]


def _needed(computation: Computation) -> set[Instruction]:
    found = {computation.root}
    stack = [computation.root]
    while stack:
        for operand in _run_for(stack.pop()):
            if operand not in found:
                found.add(operand)
                stack.append(operand)
    return found


def _run_for(x: Instruction) -> tuple[Instruction, ...]:
    """The operands that run for a value: of a tuple that is made there, the element that it is."""
    if x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0].opcode is Opcode.TUPLE:
        return (x.operands[0].operands[x.attributes_as(GetTupleElement).index],)
    return x.operands
