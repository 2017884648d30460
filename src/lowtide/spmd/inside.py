"""Collectives that an operation on tiles has itself: rows of neighbours, parts worked on again.

What they send is found by writing the operation aside, so that only `local_ops` knows which ones
there are.
"""

from __future__ import annotations

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Parameter
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ops.factors.record import OpFactors, arrays_of
from lowtide.spmd.choice import LocalOp, OperationSplit
from lowtide.spmd.emitter import DeviceProgram, Emitter
from lowtide.spmd.factor_axes import chosen_axes
from lowtide.spmd.leaves import local_tree
from lowtide.spmd.local_ops import write
from lowtide.spmd.wire import KINDS, sent_bytes


def sends(rule: OpFactors, split: OperationSplit) -> bool:
    """Whether an operation that is split so may have collectives itself."""
    if not split.axes:
        return False
    return any(split.axes.get(halo.factor) for halo in rule.halos) or bool(
        chosen_axes(rule, split.axes)
    )


def bytes_inside(
    x: Instruction, rule: OpFactors, split: OperationSplit, grid: DeviceGrid
) -> tuple[float, ...]:
    """Return the bytes that one device sends in each collective of an operation on tiles."""
    module = Module("aside")
    module.num_partitions = grid.count
    computation = module.add_computation("aside")
    emitter = Emitter(DeviceProgram(module, grid), computation)
    given: list[Instruction] = []
    at = 0
    for number, y in enumerate(x.operands):
        count = len(arrays_of(y.shape))
        shape = local_tree(y.shape, split.operands[at : at + count], grid)
        given.append(computation.add(Opcode.PARAMETER, shape, (), Parameter(number)))
        at += count
    write(emitter, LocalOp(x, rule, split, given, local_tree(x.shape, split.results, grid)))
    made = computation.instructions.values()
    return tuple([sent_bytes(y, grid.count) for y in made if y.opcode in KINDS])
