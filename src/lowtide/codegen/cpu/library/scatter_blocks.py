"""Blocks of a scatter of single elements: places and updates of several, computed as vectors."""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import vector_cycles, widest
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elementwise.memory import gathers_fast
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

_WORTH_LANES: Final = 8.0
"""Cycles of arithmetic for which it pays to put gathered elements into a vector and take them out
of it again."""


def block_lanes(kernel: Instruction, form: ScatterForm, target: Target) -> int:
    """Return how many windows a kernel takes at once, 0 where it takes each alone.

    Windows of one element are taken at once where places or updates are computed in the kernel:
    that is done for a vector of them, and its elements are then combined one by one. Updates that
    are gathered one by one as well are vectors only where more is computed with them.
    """
    if not form.batch or prod([form.update_sizes[u] for _, u in form.window]) != 1:
        return 0
    known = members(kernel)
    if all(x.opcode in _FREE for x in known):
        return 0
    computed = [x for x in known if x.opcode not in _FREE and x.opcode is not Opcode.GATHER]
    is_gathered = any(x.opcode is Opcode.GATHER for x in known) and not gathers_fast(target)
    if is_gathered and vector_cycles(computed) < _WORTH_LANES:
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


def lies_in_memory(indices: Instruction, kernel: Instruction) -> bool:
    """Whether index vectors are read from an array as they are: single ones are loaded sooner."""
    if indices in kernel.operands:
        return True
    while indices.opcode in (Opcode.RESHAPE, Opcode.BITCAST, Opcode.TRANSPOSE):
        indices = indices.operands[0]
    return indices.opcode is Opcode.PARAMETER
