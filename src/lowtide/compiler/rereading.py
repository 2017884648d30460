"""The time that a section takes longer in parts, so far as it is known before there are kernels.

Each part reads anew what all parts need as a whole, such as the weights of a network, and what
contractions read of a larger array has to be cut out of it first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import Machine
from lowtide.ir import Instruction, Opcode
from lowtide.transforms.memory.split.alignments import WHOLE
from lowtide.transforms.memory.split.sections import Section

_CONTRACTIONS: Final = frozenset({Opcode.CONVOLUTION, Opcode.DOT})


def rereading_seconds(section: Section, parts: int, machine: Machine) -> float:
    """Return the seconds that contractions move more bytes where a section runs in parts."""
    total = 0.0
    for operand, dimension in _read(section):
        nbytes = operand.shape.nbytes
        if dimension == WHOLE:
            total += (parts - 1) * move_seconds(nbytes, machine)
        elif not section.reads_part(operand, dimension):
            total += 2 * parts * move_seconds(nbytes // parts, machine)
    return total


def _read(section: Section) -> Iterator[tuple[Instruction, int]]:
    """Yield the operands of contractions, and the dimension in which each is split."""
    for x, how in section.how.items():
        if x.opcode in _CONTRACTIONS:
            yield from zip(x.operands, how.operands, strict=True)
