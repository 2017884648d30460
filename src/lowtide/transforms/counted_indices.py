"""Indices that are counted: what gathers and scatters compute from iotas alone, computed now.

Images that are resized to the nearest pixel, repeated and reflected rows ask for such indices. A
gather takes an index for each of its elements, so a few operations on the index cost more than the
element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import fused_computations
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.interface import Pass
from lowtide.transforms.constant_folding import ELEMENTWISE, MOVES, constant, evaluated

if TYPE_CHECKING:
    from lowtide.evaluator.values import Value

MOST_INDICES: Final = 2048
"""Elements of an array that is computed: so many of 32 bits take 8 KiB."""

MOST_OPERATIONS: Final = 64

_KNOWN: Final = frozenset({Opcode.CONSTANT, Opcode.IOTA})
_COUNTED: Final = (ELEMENTWISE | MOVES | _KNOWN | {Opcode.BROADCAST}) - {Opcode.MAP}


def fold_counted_indices(module: Module) -> int:
    """Make constants of indices that depend on iotas and constants only; return how many changes.

    What nobody reads any more goes, and counts too. Arrays of more than `MOST_INDICES` elements
    stay, and so do iotas by themselves, which other passes know, and all in the bodies of fusions.
    """
    fused = fused_computations(module)
    changes = 0
    for computation in [x for x in module.computations.values() if x not in fused]:
        for x in list(computation.instructions.values()):
            if x.opcode in _INDEXED:
                changes += _fold(x, len(x.operands) // 2)
    return changes + remove_dead_code(module) if changes else 0


_INDEXED: Final = frozenset({Opcode.GATHER, Opcode.SCATTER})


def _fold(x: Instruction, place: int) -> bool:
    """gather(x, f(iota)) => gather(x, constant), whose indices are operand number `place`."""
    indices = x.operands[place]
    needed = [] if indices.opcode in _KNOWN else _needed(indices)
    if all(y.opcode is not Opcode.IOTA for y in needed):
        return False
    found: dict[Instruction, Value] = {}
    for y in needed:
        if y.opcode is Opcode.CONSTANT:
            found[y] = y.attributes_as(Constant).literal.array
            continue
        value = evaluated(y, [found[z] for z in y.operands])
        if value is None:
            return False
        found[y] = value
    made = constant(indices, np.asarray(found[indices]))
    x.replace_operand(place, x.parent.add(Opcode.CONSTANT, indices.shape, attributes=made))
    return True


def _needed(indices: Instruction) -> list[Instruction]:
    """What indices are computed from, each behind its operands; nothing where that is too much."""
    order: dict[Instruction, None] = {}
    waiting = [indices]
    while waiting:
        x = waiting[-1]
        if not _may_be_counted(x) or len(order) + len(waiting) > MOST_OPERATIONS:
            return []
        missing = [y for y in x.operands if y not in order]
        if missing:
            waiting += missing
            continue
        order[waiting.pop()] = None
    return list(order)


def _may_be_counted(x: Instruction) -> bool:
    plain = x.shape.is_array and not x.shape.is_dynamic and not x.shape.memory_space
    return plain and x.opcode in _COUNTED and x.shape.element_count <= MOST_INDICES


PASSES: Final = (
    Pass(
        "counted-indices",
        fold_counted_indices,
        "Indices that are computed from iotas alone become constants.",
        """
        HloModule m
        ENTRY e {
          x = f32[2,5] parameter(0)
          i = s32[4] iota(), iota_dimension=0
          one = s32[] constant(1)
          ones = s32[4] broadcast(one), dimensions={}
          half = s32[4] shift-right-logical(i, ones)
          ROOT y = f32[4,5] gather(x, half), offset_dims={1}, collapsed_slice_dims={0},
            start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}
        }
        """,
        """
        HloModule m
        ENTRY e (x: f32[2,5]) -> f32[4,5] {
          x = f32[2,5]{1,0} parameter(0)
          constant = s32[4]{0} constant({0, 0, 1, 1})
          ROOT y = f32[4,5]{1,0} gather(x, constant), offset_dims={1}, collapsed_slice_dims={0},
            start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}
        }
        """,
    ),
)
