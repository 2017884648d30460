"""Results of fused products that lie otherwise than the product does.

A kernel of a product takes element after element of it and stores what becomes of each at once.
Where results move it, as a transpose does, one element belongs to different places of different
results: what one result is stored over, another may not have read yet.
"""

from __future__ import annotations

from typing import TypeAlias

from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ShapeIndex
from lowtide.ir.traversal import post_order
from lowtide.ops.fused_reads import results_of
from lowtide.ops.overwriting import is_in_order, keeps_order

Moves: TypeAlias = "tuple[Instruction, ...]"
"""What moved the elements of a product on the way to a value, first things first."""


def moves_of_results(root: Instruction) -> tuple[Moves, ...] | None:
    """Return the moves behind products of each element of a tuple that a fusion returns.

    None where there is no product, or one result, so that nothing is stored before its time.
    """
    if root.opcode is not Opcode.TUPLE or len(root.operands) < 2:
        return None
    moves: dict[Instruction, Moves] = {}
    for x in post_order(root.parent):
        if _is_product(x):
            moves[x] = (x,) if x.opcode is Opcode.FUSION else ()
        elif known := [moves[y] for y in x.operands if y in moves]:
            moved = max(known, key=len)
            moves[x] = (*moved, x) if _moves(x) else moved
    return tuple([moves.get(x, ()) for x in root.operands]) if moves else None


def stored_in_step(
    parameter: Instruction, results: list[ShapeIndex], moves: tuple[Moves, ...]
) -> list[ShapeIndex]:
    """Return those of some results that may lie over a parameter which is read elementwise.

    They are stored at an element of it when all results that need that one are computed.
    """
    ways = {moves[number] for number in results_of(parameter)}
    if len(ways) > 1:
        return []
    return [x for x in results if len(x) == 1 and (not ways or moves[x[0]] in ways)]


def _is_product(x: Instruction) -> bool:
    """Whether an operation is a product, or a fusion with one within."""
    waiting = [x]
    for y in waiting:
        if y.opcode in (Opcode.CONVOLUTION, Opcode.DOT):
            return True
        if y.opcode is Opcode.FUSION:
            waiting += y.called_computations[0].instructions.values()
    return False


def _moves(x: Instruction) -> bool:
    """Whether elements are in another row-major order than those of the operand."""
    if x.opcode is Opcode.BITCAST:
        return not keeps_order(x.operands[0].shape, x.shape)
    if x.opcode is Opcode.BROADCAST:
        return not is_in_order(x)
    return x.opcode is Opcode.TRANSPOSE
