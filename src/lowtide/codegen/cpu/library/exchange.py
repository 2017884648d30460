"""Collective operations of several devices: the runtime has the devices meet, no kernel does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.elements.reducers import monoid_of
from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.errors import unsupported
from lowtide.ir.exchange import Exchange
from lowtide.llvm.target import Target
from lowtide.ops.meetings import devices_of, groups_of

_WHOLE: Final[Mapping[Opcode, Opcode]] = {
    Opcode.ALL_GATHER_START: Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE,
    Opcode.COLLECTIVE_PERMUTE_START: Opcode.COLLECTIVE_PERMUTE,
}
"""What starts an operation does all of it."""

_NUMBERS: Final = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID})


def plan_exchange(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a collective operation, None where each device is alone in it.

    Raises UnsupportedOpError for a group that leaves a device out, and a form that is not run.
    """
    if devices_of(instruction.parent.module) == 1:
        return None
    exchange = _exchange_of(instruction)
    if exchange is None:
        return None
    return KernelPlan(lambda: KernelCode((), ()), exchange=exchange)


def _exchange_of(instruction: Instruction) -> Exchange | None:
    opcode = instruction.opcode
    kind = _WHOLE.get(opcode, opcode)
    operands = tuple([x for operand in instruction.operands for x in leaves(operand.shape)])
    results = tuple(leaves(instruction.shape))
    if kind in _NUMBERS:
        return Exchange(kind, operands, results)
    groups = groups_of(instruction)
    if opcode in (Opcode.ALL_GATHER_START, Opcode.COLLECTIVE_PERMUTE_START):
        results = results[len(operands) :]
    if kind is Opcode.COLLECTIVE_PERMUTE:
        how = instruction.attributes_as(CollectivePermute)
        if how.slice_sizes:
            raise unsupported(instruction, "no form with slice_sizes is run; the plain one is")
        return Exchange(kind, operands, results, groups, pairs=how.source_target_pairs)
    if all(len(group) == 1 for group in groups):
        return None
    reducer = None
    if instruction.called_computations:
        reducer = monoid_of(instruction.called_computations[0])
        if reducer is None:
            reason = "reduces by more than one plain operation, which no device can do in parts"
            raise unsupported(instruction, reason)
    dimension = instruction.attributes_as(Collective).dimension
    return Exchange(kind, operands, results, groups, dimension, reducer)
