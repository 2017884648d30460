"""Kinds of operations: those that a compilation may compute inside their readers, and others."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.opcode import CALLERS
from lowtide.ops.table import TABLE


class Kind(IntEnum):
    """How an operation may run in a compilation of the class that the bound is about."""

    FREE = 0
    """In its readers, as often as they like, element by element, or stored."""
    IN_PLACE = 1
    """Once, its results perhaps where operands were."""
    APART = 2
    """Once, while its operands and what is stored of its results are in memory together."""


_FREE: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BITCAST_CONVERT, Opcode.BROADCAST, Opcode.CONCATENATE),
        *(Opcode.CONSTANT, Opcode.COPY, Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE),
        *(Opcode.GATHER, Opcode.IOTA, Opcode.MAP, Opcode.PAD, Opcode.PARAMETER, Opcode.REDUCE),
        *(Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE),
        *(Opcode.OPTIMIZATION_BARRIER, Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.PARTITION_ID),
        *(Opcode.REPLICA_ID, Opcode.AFTER_ALL, Opcode.ADD_DEPENDENCY),
    }
)
"""Beside element-wise operations. Sums that a kernel may hold on chip are among them."""

_APART: Final = frozenset(
    {*(Opcode.CONVOLUTION, Opcode.DOT, Opcode.FFT, Opcode.REDUCE_WINDOW), Opcode.SELECT_AND_SCATTER}
)
"""Many results are of one element of the operands, which are read until the end."""

_BEHIND: Final = frozenset(
    {
        *(Opcode.ADD_DEPENDENCY, Opcode.BITCAST, Opcode.BITCAST_CONVERT, Opcode.COPY),
        *(Opcode.GET_TUPLE_ELEMENT, Opcode.OPTIMIZATION_BARRIER, Opcode.RESHAPE),
        *(Opcode.REVERSE, Opcode.TRANSPOSE, Opcode.TUPLE),
    }
)


def runs_behind(x: Instruction) -> bool:
    """Whether the kernel of an operation that runs once may apply this one to its result.

    It has an element ready when it has one of its own; all others read what is stored.
    """
    return x.opcode in _BEHIND or (x.opcode not in CALLERS and TABLE[x.opcode].elementwise)


def kind_of(x: Instruction) -> Kind:
    """Return how an instruction may run; what is not known to be apart may be in place."""
    if x.opcode in _FREE or runs_behind(x):
        return Kind.FREE
    return Kind.APART if x.opcode in _APART else Kind.IN_PLACE
