"""Bitcasts as moves of elements: their meaning is that of layouts, and parts have other ones."""

from __future__ import annotations

from lowtide.ir import Instruction
from lowtide.ir.errors import unsupported
from lowtide.ops.bitcasts import bitcast_steps
from lowtide.passes.editing import make


def as_moves(x: Instruction) -> Instruction:
    """Return what equals a bitcast in every layout: transposes, a reshape, a bitcast-convert.

    Raises UnsupportedOpError for tiled layouts.
    """
    source, target = x.operands[0].shape, x.shape
    if not (source.is_array and target.is_array) or source.is_dynamic or target.is_dynamic:
        return x
    if any(y.layout is not None and y.layout.tiles for y in (source, target)):
        raise unsupported(x, "a bitcast of tiled layouts is not partitioned; remove the tiles")
    value = x.operands[0]
    for step in bitcast_steps(source, target):
        value = make(x.parent, step.opcode, step.shape, (value,), x, step.attributes)
    if value is not x.operands[0]:
        value.set_shape(target)  # The layout tells a bitcast that reads it in which order.
    return value
