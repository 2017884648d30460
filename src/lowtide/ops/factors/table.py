"""The factors of an instruction, by the row of its opcode in the table of operations."""

from __future__ import annotations

from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.factors.computing import elementwise
from lowtide.ops.factors.record import FactorDraft, OpFactors
from lowtide.ops.table import TABLE


def has_factors(opcode: Opcode) -> bool:
    """Whether operations of an opcode have factors."""
    row = TABLE[opcode]
    return row.elementwise or row.factors is not None


def factors_of(x: Instruction) -> OpFactors:
    """Return the factors of an instruction.

    There are none where its row says nothing of them, nor among arrays of dynamic sizes.
    """
    operands = [shape for operand in x.operands for shape in arrays_of(operand.shape)]
    results = arrays_of(x.shape)
    row = TABLE[x.opcode]
    rule = row.factors or (elementwise if row.elementwise else None)
    if rule is None or any(not s.is_array or s.is_dynamic for s in (*operands, *results)):
        why = f"no rule for {x.opcode.value}"
        return FactorDraft.of(operands, results).done(why=why)
    return rule(x, operands, results)


def arrays_of(shape: Shape) -> list[Shape]:
    """Return the shapes of the leaves."""
    return [leaf for _, leaf in shape.leaves()]
