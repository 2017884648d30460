"""Removal of instructions and computations that nothing reads or calls any more."""

from __future__ import annotations

from lowtide.ir import Module, Opcode
from lowtide.ir.traversal import computation_post_order
from lowtide.ops.effects import has_side_effect

_CROSSING = frozenset(
    {
        *(Opcode.ALL_GATHER, Opcode.ALL_REDUCE, Opcode.ALL_TO_ALL, Opcode.REDUCE_SCATTER),
        Opcode.COLLECTIVE_PERMUTE,
    }
)
"""Collectives that all devices leave out alike where no device reads them."""


def remove_dead(module: Module) -> None:
    """Remove instructions without users or effects, and computations that nothing calls."""
    for computation in module.computations.values():
        pending = list(computation.instructions.values())
        while pending:
            x = pending.pop()
            if x.users or x.is_root or x.opcode is Opcode.PARAMETER:
                continue
            if x.name not in computation.instructions:
                continue
            if has_side_effect(x) and x.opcode not in _CROSSING:
                continue
            operands = list(x.operands)
            computation.remove(x)
            pending.extend(operands)
    called = set(computation_post_order(module))
    for computation in list(module.computations.values()):
        if computation not in called:
            module.remove_computation(computation)
