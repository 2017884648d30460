"""A copy of a module in which what scalars fill is no link between the arrays that read it.

A program has one `zeros(32)` for 32 channels and for a batch of 32. With one for each reader, the
two can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import post_order


def unshared(module: Module) -> Module:
    """Return a copy in which each reader has broadcasts of scalars and iotas of its own.

    A module with an order is copied as it is.
    """
    copy = clone_module(module)
    if not copy.is_scheduled:
        for computation in copy.computations.values():
            _unshare(computation)
    return copy


def _unshare(computation: Computation) -> None:
    for x in list(post_order(computation)):
        if not _is_filled(x) or x.has_control_edges:
            continue
        for user in _behind_the_first(x.users):
            own = computation.add_like(x, x.operands)
            for i, operand in enumerate(user.operands):
                if operand is x:
                    user.replace_operand(i, own)


def _behind_the_first(users: Iterable[Instruction]) -> list[Instruction]:
    return list(users)[1:]


def _is_filled(x: Instruction) -> bool:
    """Whether an instruction makes an array of scalars only."""
    if x.opcode is Opcode.IOTA:
        return True
    return x.opcode is Opcode.BROADCAST and x.operands[0].shape.rank == 0
