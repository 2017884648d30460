"""The table of rules: one function per opcode, for propagation and partitioning alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ops.table import TABLE
from lowtide.spmd.rules import computing, indexing, movement, windows
from lowtide.spmd.rules.rule import OpRule, RuleDraft

RuleOf = Callable[[Instruction, Sequence[Shape], Sequence[Shape]], OpRule]

_RULES: Final[dict[Opcode, RuleOf]] = {
    **{opcode: computing.elementwise for opcode, row in TABLE.items() if row.elementwise},
    Opcode.BATCH_NORM_GRAD: computing.batch_norm,
    Opcode.BATCH_NORM_INFERENCE: computing.batch_norm,
    Opcode.BATCH_NORM_TRAINING: computing.batch_norm,
    Opcode.BITCAST_CONVERT: movement.bitcast_convert,
    Opcode.BROADCAST: movement.broadcast,
    Opcode.CHOLESKY: computing.batches,
    Opcode.CLAMP: computing.elementwise,
    Opcode.CONCATENATE: movement.listed,
    Opcode.CONVOLUTION: windows.convolution,
    Opcode.CUSTOM_CALL: computing.custom_call,
    Opcode.COPY: computing.elementwise,
    Opcode.DOT: computing.dot,
    Opcode.DYNAMIC_SLICE: indexing.dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: indexing.dynamic_update_slice,
    Opcode.FFT: computing.batches,
    Opcode.GATHER: indexing.gather,
    Opcode.IOTA: movement.iota,
    Opcode.PAD: movement.pad,
    Opcode.REDUCE: computing.reduce,
    Opcode.REDUCE_WINDOW: windows.reduce_window,
    Opcode.RESHAPE: movement.reshape,
    Opcode.REVERSE: movement.listed,
    Opcode.SCATTER: indexing.scatter,
    Opcode.SELECT: computing.elementwise,
    Opcode.SELECT_AND_SCATTER: windows.select_and_scatter,
    Opcode.SLICE: movement.slices,
    Opcode.SORT: computing.sort,
    Opcode.TOPK: computing.top_k,
    Opcode.TRANSPOSE: movement.transpose,
    Opcode.TRIANGULAR_SOLVE: computing.batches,
}


def rule_of(x: Instruction) -> OpRule:
    """Return the rule of an instruction; where its opcode has none, one without factors."""
    operands = [shape for operand in x.operands for shape in arrays_of(operand.shape)]
    results = arrays_of(x.shape)
    found = _RULES.get(x.opcode)
    is_known = found is not None and all(shape.is_array for shape in (*operands, *results))
    if found is None or not is_known or any(s.is_dynamic for s in (*operands, *results)):
        return RuleDraft.of(operands, results).done(why=f"no rule for {x.opcode.value}")
    return found(x, operands, results)


def arrays_of(shape: Shape) -> list[Shape]:
    """Return the shapes of the leaves."""
    return [leaf for _, leaf in shape.leaves()]
