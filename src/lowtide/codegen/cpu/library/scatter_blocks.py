"""Blocks of a scatter of single elements: places and updates of several, computed as vectors."""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import widest
from lowtide.codegen.elements.operands import members
from lowtide.codegen.library.scatter_form import ScatterForm
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

_FREE: Final = frozenset(
    {Opcode.SCATTER, Opcode.PARAMETER, Opcode.CONSTANT, Opcode.BROADCAST, Opcode.BITCAST}
    | {Opcode.RESHAPE, Opcode.GET_TUPLE_ELEMENT, Opcode.TUPLE}
)
"""Operations that cost a single element nothing."""


def block_lanes(kernel: Instruction, form: ScatterForm, target: Target) -> int:
    """Return how many windows a kernel takes at once, 0 where it takes each alone.

    Windows of one element are taken at once where places or updates are computed in the kernel:
    that is done for a vector of them, and its elements are then combined one by one.
    """
    if not form.batch or prod([form.update_sizes[u] for _, u in form.window]) != 1:
        return 0
    known = members(kernel)
    if all(x.opcode in _FREE for x in known):
        return 0
    lanes = 1
    while 2 * lanes * widest(known) <= target.vector_bytes:
        lanes *= 2
    return lanes if 1 < lanes <= form.update_sizes[form.batch[-1]] else 0


def lane_of(function: Function, value: Value, lane: int) -> Value:
    """Return one element of a vector, or what all lanes have."""
    if not value.lanes:
        return value
    type_ = value.llvm_type
    names = [function.op(f"extractelement {type_} {x}, i64 {lane}") for x in value.names]
    return Value(tuple(names), value.type)
