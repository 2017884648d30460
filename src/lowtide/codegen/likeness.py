"""Likeness of instructions: those that are alike run the same code."""

from __future__ import annotations

from collections.abc import Hashable

from lowtide.ir import Instruction


def likeness(instruction: Instruction) -> Hashable:
    """Return what decides about the code of an instruction."""
    operands = instruction.operands
    return (
        instruction.opcode,
        instruction.attributes,
        instruction.shape,
        tuple([x.shape for x in operands]),
        tuple([operands.index(x) for x in operands]),
        instruction.called_computations,
        instruction.annotations.backend_config,
    )
