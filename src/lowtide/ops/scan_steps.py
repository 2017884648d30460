"""Steps of scans: whether each element has a chain of its own."""

from __future__ import annotations

from typing import Final

from lowtide.ir.attributes import Scan
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ops.table import TABLE

_PLAIN: Final = (Opcode.CONSTANT, Opcode.IOTA, Opcode.TUPLE, Opcode.PARAMETER)


def has_chains(scan: Instruction) -> bool:
    """Whether a scan is one chain of steps for each element of a slice, all of them alike.

    All slices and carries then have the same dimensions, of which none is 0, and each element of
    what a step makes needs the same element of what it is given only.
    """
    body = scan.called_computations[0]
    sizes = list(scan.operands[0].shape.dimensions)
    if 0 in sizes:
        return False
    del sizes[scan.attributes_as(Scan).dimension]
    root = body.root
    results = root.shape.tuple_shapes if root.shape.is_tuple else (root.shape,)
    shapes = [*results, *[x.shape for x in body.parameters]]
    return all(x.is_array and [*x.dimensions] == sizes for x in shapes) and _is_elementwise(body)


def _is_elementwise(body: Computation) -> bool:
    for x in body.instructions.values():
        if x.opcode is Opcode.BROADCAST:
            if x.operands[0].shape.rank or x.operands[0].opcode is Opcode.PARAMETER:
                return False
        elif x.opcode not in _PLAIN and not TABLE[x.opcode].elementwise:
            return False
    return True
