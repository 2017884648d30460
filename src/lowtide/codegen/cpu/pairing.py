"""Kernels of bf16 whose lanes need no order: elements are read and written in pairs.

That is faster where vectors have 32 bytes: what spreads 8 elements of 16 bits over such a vector,
and what packs them again, takes as long as much of the arithmetic between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.target import Target
from lowtide.ops.table import TABLE

PAIR: Final = 2
"""Vectors of floats, at least, of which one has the even elements and one the odd ones."""

_VECTOR_BYTES: Final = 32

_ANYWHERE: Final = frozenset(
    {
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CONSTANT,
        Opcode.PARAMETER,
        Opcode.REDUCE,
        Opcode.RESHAPE,
        Opcode.TUPLE,
    }
)
"""Operations besides elementwise ones whose value in a lane does not tell which lane it is."""


def may_pair(target: Target, members: Iterable[Instruction]) -> bool:
    """Return whether what a kernel computes is the same in whichever lane it does so."""
    if target.vector_bytes != _VECTOR_BYTES:
        return False
    return all(x.opcode in _ANYWHERE or TABLE[x.opcode].elementwise for x in members)


def are_pairs(accesses: Iterable[tuple[Array, int]]) -> bool:
    """Return whether arrays that vectors run along are of bf16, and some are.

    Each comes with how far its elements of two lanes lie apart.
    """
    along = [(array.shape.element_type, step) for array, step in accesses if step]
    return bool(along) and all(x == (ElementType.BF16, 1) for x in along)
