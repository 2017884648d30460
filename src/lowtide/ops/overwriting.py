"""The one rule on what a kernel may read of an array while it overwrites it.

A kernel writes elements in any order, each once, and reads what an element needs just before it
writes it. So of the array that it overwrites it may read the very element that it writes next. A
scatter may write an element several times, and may read nothing but what it combines there.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Final

from lowtide.ir.attributes import Constant, Dimensions, Slice
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, major_to_minor
from lowtide.ops.table import TABLE


class Need(Enum):
    """Which element of a value is read before element i, in row-major order, is written.

    `WHOLE`: element i, where i counts in the whole array. `PART`: element i, where i counts in the
    part that an update replaces. `ANY`: others, or at another time.
    """

    WHOLE = auto()
    PART = auto()
    ANY = auto()


def lies_alike(a: Shape, b: Shape) -> bool:
    """Whether equal indices mean equal bytes in arrays of both shapes."""
    if a is b:
        return True
    if not a.is_array or not b.is_array or a.dimensions != b.dimensions:
        return False
    return element_bits(a) == element_bits(b) and _form(a) == _form(b)


def element_bits(shape: Shape) -> int:
    """Return the bits that an element of an array takes in memory."""
    size = 0 if shape.layout is None else shape.layout.element_size_in_bits
    return size or 8 * shape.element_type.nbytes


def _form(shape: Shape) -> tuple[object, ...]:
    """How an array lies: its dimensions from the minor one on, and tiles; size 1 tells nothing."""
    layout = shape.layout
    order = reversed(range(shape.rank)) if layout is None else layout.minor_to_major
    if layout is not None and (layout.tiles or layout.split_configs):
        return (*order, layout.tiles, layout.split_configs)
    return tuple([d for d in order if shape.dimensions[d] != 1])


def keeps_order(source: Shape, result: Shape) -> bool:
    """Whether a bitcast leaves each element at its row-major number."""
    if element_bits(source) != element_bits(result):
        return False
    rows = all(x.layout in (None, major_to_minor(x.rank)) for x in (source, result))
    return rows or lies_alike(source, result)


def is_in_order(broadcast: Instruction) -> bool:
    """Whether the dimensions of what a broadcast repeats stay in their order."""
    return all(a < b for a, b in pairwise(broadcast.attributes_as(Dimensions).dimensions))


# -- kernels that update ---------------------------------------------------------------------------


def reads_target_elsewhere(
    update: Instruction,
    number: int,
    names: Mapping[Instruction, bool],
    others: Sequence[Instruction] = (),
    members: Container[Instruction] | None = None,
) -> bool:
    """Whether a kernel around an update reads what it may have overwritten.

    The update, a dynamic-update-slice or a scatter, overwrites its operand `number`. `names` are
    the instructions that are the array overwritten; True where elements have the row-major numbers
    that they have for the update. `others` are what the kernel computes besides, at any time. Only
    `members` are computed in the kernel, by default all but parameters.
    """
    is_slice = update.opcode is Opcode.DYNAMIC_UPDATE_SLICE
    begin = [
        (x, Need.PART if is_slice and i == 1 else Need.ANY)
        for i, x in enumerate(update.operands)
        if i != number
    ]
    begin += [(x, Need.ANY) for x in others]
    return _finds_conflict(begin, names, update if is_slice else None, members)


def reads_other_elements(results: Sequence[Instruction], target: Instruction) -> bool:
    """Whether a loop that overwrites a fused parameter with the first of its results needs others.

    Results of other dimensions are computed at another time.
    """
    sizes = results[0].shape
    begin = [
        (x, Need.WHOLE if x.shape.is_array and x.shape.dimensions == sizes.dimensions else Need.ANY)
        for x in results
    ]
    is_moved = not lies_alike(sizes, target.shape)
    return is_moved or _finds_conflict(begin, {target: True}, None, None)


def _finds_conflict(
    begin: Sequence[tuple[Instruction, Need]],
    names: Mapping[Instruction, bool],
    update: Instruction | None,
    members: Container[Instruction] | None,
) -> bool:
    """Go from values that a kernel needs to what it reads; `update` gives parts their meaning."""
    stack = list(begin)
    seen = set(stack)
    while stack:
        x, need = stack.pop()
        if x in names:
            if not (names[x] and _is_next(x, need, update)):
                return True
            continue
        if members is not None and x not in members:
            continue
        fresh = [(y, _passed_on(x, y, need, update)) for y in x.operands]
        fresh = [y for y in fresh if y not in seen]
        seen.update(fresh)
        stack += fresh
    return False


def _is_next(target: Instruction, need: Need, update: Instruction | None) -> bool:
    """Whether what is needed of the array that is overwritten is what is written next."""
    if need is Need.PART and update is not None:
        return update.operands[1].shape.element_count == target.shape.element_count
    return need is Need.WHOLE


def _passed_on(
    x: Instruction, operand: Instruction, need: Need, update: Instruction | None
) -> Need:
    """What is needed of an operand where `need` is needed of `x`."""
    if need is Need.ANY:
        return need
    if need is Need.PART and update is not None and _is_replaced_part(x, update):
        return Need.WHOLE if operand is x.operands[0] else Need.ANY
    return need if _keeps_numbers(x, operand) else Need.ANY


def _keeps_numbers(x: Instruction, operand: Instruction) -> bool:
    """Whether element i of a result needs of an operand element i only, in row-major order."""
    if x.opcode is Opcode.RESHAPE:
        return True
    if x.opcode is Opcode.BITCAST:
        return keeps_order(operand.shape, x.shape)
    if x.opcode is Opcode.BROADCAST:
        return operand.shape.element_count == x.shape.element_count and is_in_order(x)
    return TABLE[x.opcode].elementwise and operand.shape.dimensions == x.shape.dimensions


def _is_replaced_part(x: Instruction, update: Instruction) -> bool:
    """Whether an instruction slices of its operand just what an update replaces."""
    target, written, *starts = update.operands
    if x.opcode not in _SLICES or x.shape.dimensions != written.shape.dimensions:
        return False
    if x.operands[0].shape.dimensions != target.shape.dimensions:
        return False
    if x.opcode is Opcode.DYNAMIC_SLICE:
        return all(_equal(a, b) for a, b in zip(x.operands[1:], starts, strict=True))
    attributes = x.attributes_as(Slice)
    known = [_number(start) for start in starts]
    sizes = zip(target.shape.dimensions, written.shape.dimensions, strict=True)
    clamped = [
        None if number is None else min(max(number, 0), whole - size)
        for number, (whole, size) in zip(known, sizes, strict=True)
    ]
    return list(attributes.starts) == clamped and set(attributes.strides) <= {1}


_SLICES: Final = frozenset({Opcode.DYNAMIC_SLICE, Opcode.SLICE})


def _equal(a: Instruction, b: Instruction) -> bool:
    """Whether two starts are the same instruction, or equal constants."""
    return a is b or (_number(a) is not None and _number(a) == _number(b))


def _number(start: Instruction) -> int | None:
    """The value of a constant, None for any other instruction."""
    if start.opcode is Opcode.BROADCAST:
        start = start.operands[0]
    if start.opcode is not Opcode.CONSTANT or start.shape.rank:
        return None
    literal = start.attributes_as(Constant).literal
    return None if literal.elided else int(literal.array[()])
