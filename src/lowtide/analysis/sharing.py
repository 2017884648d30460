"""The operand values that a result may overwrite, once they are not needed any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from lowtide.analysis.forwarding import LeafCounts, Leaves
from lowtide.ir import Instruction, Opcode
from lowtide.ops.may_share import sharing_pairs
from lowtide.ops.table import TABLE

Share = tuple[int, int]
"""A value that an instruction reads and a value that it makes."""

_INSIDE: Final = frozenset({Opcode.CALL, Opcode.CONDITIONAL, Opcode.ASYNC_START})
"""Operations whose callees decide what lies where."""


def shared_values(
    instruction: Instruction, operands: Sequence[Leaves], result: Leaves, counts: LeafCounts
) -> list[Share]:
    """Return which values may share one buffer, those preferred first.

    A value that the instruction reads in several places shares only with an elementwise result
    that reads it in one shape. A copy whose operand dies can stay where that is: it then moves
    nothing.
    """
    if instruction.opcode in _INSIDE:
        return []
    if instruction.opcode is Opcode.WHILE:
        return list(zip(operands[0], result, strict=True))
    if instruction.opcode is Opcode.COPY and instruction.shape is instruction.operands[0].shape:
        return list(zip(operands[0], result, strict=True))
    pairs = sharing_pairs(instruction)
    if not pairs:
        return []
    shares: list[Share] = []
    for (operand, index), output in pairs:
        shape = instruction.operands[operand].shape
        if not (index or output or shape.is_tuple or instruction.shape.is_tuple):
            shares.append((operands[operand][0], result[0]))
            continue
        if counts.of(shape.at(index)) != counts.of(instruction.shape.at(output)):
            continue  # What is written in place may be of another shape, by bitcasts.
        read = counts.position(shape, index)
        made = counts.position(instruction.shape, output)
        count = counts.of(shape.at(index))
        shares += zip(
            operands[operand][read : read + count], result[made : made + count], strict=True
        )
    repeated = _read_differently(instruction, operands)
    return [share for share in shares if share[0] not in repeated]


def _read_differently(instruction: Instruction, operands: Sequence[Leaves]) -> frozenset[int]:
    """The values read in several places that would show if one of them were overwritten."""
    if len(operands) == 1:
        return _NONE
    values = [value for leaves in operands for value in leaves]
    if len(set(values)) == len(values):
        return _NONE
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if not TABLE[instruction.opcode].elementwise:
        return frozenset(repeated)
    shapes: dict[int, set[int]] = {}
    for operand, leaves in zip(instruction.operands, operands, strict=True):
        for value in leaves:
            shapes.setdefault(value, set()).add(id(operand.shape))
    return frozenset([value for value in repeated if len(shapes[value]) > 1])


_NONE: Final[frozenset[int]] = frozenset()
