"""Values that are counted: what is computed from iotas alone, computed now where that is dear.

Images that are resized to the nearest pixel, repeated and reflected rows ask for such indices: a
gather takes an index for each of its elements, so a few operations on the index cost more than the
element. Encodings of positions and windows of signals ask for sines of them, which each call would
compute again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import fused_computations, post_order
from lowtide.ops.cost import cost
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.interface import Pass
from lowtide.transforms.constant_folding import ELEMENTWISE, MOVES, constant, evaluated

if TYPE_CHECKING:
    from lowtide.evaluator.values import Value

MOST_INDICES: Final = 2048
"""Elements of an array of indices that is computed: so many of 32 bits take 8 KiB."""

MOST_OF_TABLE: Final = 1 << 16
"""Elements of a table of functions that is computed: so many of 32 bits take 256 KiB."""

MOST_OPERATIONS: Final = 64

_KNOWN: Final = frozenset({Opcode.CONSTANT, Opcode.IOTA})
_COUNTED: Final = (ELEMENTWISE | MOVES | _KNOWN | {Opcode.BROADCAST}) - {Opcode.MAP}
_INDEXED: Final = frozenset({Opcode.GATHER, Opcode.SCATTER})


def fold_counted_values(module: Module) -> int:
    """Make constants of dear values that depend on iotas and constants; return how many changes.

    These are indices, and what is computed by transcendental functions. What nobody reads any more
    goes, and counts too. Indices of more than `MOST_INDICES` elements and tables of more than
    `MOST_OF_TABLE` stay, and so do iotas by themselves, which other passes know, and all in the
    bodies of fusions.
    """
    fused = fused_computations(module)
    changes = 0
    for computation in [x for x in module.computations.values() if x not in fused]:
        for indices in list(_indices(computation)):
            changes += _fold(indices, MOST_INDICES)
        for table in _tables(computation):
            changes += _fold(table, MOST_OF_TABLE)
    return changes + remove_dead_code(module) if changes else 0


def _indices(computation: Computation) -> Iterator[Instruction]:
    """Yield the indices of gathers and scatters that something computes."""
    found: dict[Instruction, None] = {}
    for x in computation.instructions.values():
        if x.opcode in _INDEXED:
            found[x.operands[len(x.operands) // 2]] = None
    return (x for x in found if x.opcode not in _KNOWN)


def _tables(computation: Computation) -> list[Instruction]:
    """The counted values with transcendental functions that something else reads.

    A broadcast of one is as cheap as it is, and may be larger: what it repeats is the table.
    """
    dear: dict[Instruction, bool] = {}
    for x in post_order(computation):
        if _may_be_counted(x, MOST_OF_TABLE) and all(y in dear for y in x.operands):
            dear[x] = any(dear[y] for y in x.operands) or cost(x).transcendentals > 0
    if not any(dear.values()):
        return []
    read: set[Instruction] = set()
    for x in reversed(list(dear)):
        if x.is_root or any(
            y not in dear or (y in read and y.opcode is Opcode.BROADCAST) for y in x.users
        ):
            read.add(x)
    return [x for x in dear if dear[x] and x in read and x.opcode is not Opcode.BROADCAST]


def _fold(x: Instruction, most: int) -> bool:
    """f(iota) => constant, of arrays of so many elements at most."""
    needed = _needed(x, lambda y: _may_be_counted(y, most))
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
    made = constant(x, np.asarray(found[x]))
    x.replace_all_uses_with(x.parent.add(Opcode.CONSTANT, x.shape, attributes=made))
    return True


def _needed(x: Instruction, may_be_counted: Callable[[Instruction], bool]) -> list[Instruction]:
    """What a value is computed from, each behind its operands; nothing where that is too much."""
    order: dict[Instruction, None] = {}
    waiting = [x]
    while waiting:
        y = waiting[-1]
        if not may_be_counted(y) or len(order) + len(waiting) > MOST_OPERATIONS:
            return []
        missing = [z for z in y.operands if z not in order]
        if missing:
            waiting += missing
            continue
        order[waiting.pop()] = None
    return list(order)


def _may_be_counted(x: Instruction, most: int) -> bool:
    plain = x.shape.is_array and not x.shape.is_dynamic and not x.shape.memory_space
    return plain and x.opcode in _COUNTED and x.shape.element_count <= most


PASSES: Final = (
    Pass(
        "counted-values",
        fold_counted_values,
        "Indices and tables of functions that are computed from iotas alone become constants.",
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
