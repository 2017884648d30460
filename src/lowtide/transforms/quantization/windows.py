"""The greatest of quantized numbers in windows: found among the numbers, which take a byte each."""

from __future__ import annotations

from typing import Final

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Constant, ReduceWindow, WindowDimension
from lowtide.ops.reducers import reducer_opcode
from lowtide.passes.matching import is_plain, scalar_value
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.quantization.operands import float_operand
from lowtide.transforms.quantization.spreading import plain
from lowtide.transforms.quantization.sums import less, scaled, slices
from lowtide.transforms.simplify.support import Made


@rule(Opcode.REDUCE_WINDOW)
def greatest_number(x: Instruction, at: Rewriter) -> Made:
    """Rule: reduce-window((p - z) * s, -inf) => (reduce-window(p, least) - z) * s, of the greatest.

    Each window meets an element, and s is known to be positive: then the greatest number stands for
    the greatest product, rounded likewise.
    """
    if len(x.operands) != 2 or not is_plain(x.shape) or not _is_of_greatest(x):
        return None
    given = float_operand(x.operands[0])
    if given is None or given.moves or given.scale is None or given.scale.places:
        return None
    if not _is_positive(given.scale.value) or (given.zero is not None and given.zero.places):
        return None
    how, sizes = x.attributes_as(ReduceWindow), given.numbers.shape.dimensions
    if not all(map(_meets_all, how.window.dimensions, sizes, x.shape.dimensions)):
        return None
    type_ = given.type
    least = at.build.constant(-(1 << type_.bits - 1) if type_.is_signed else 0, type_)
    reducer = at.build.scalar_computation(Opcode.MAXIMUM, type_)
    found = at.build.reduce_window(at(given.numbers), least, reducer, how.window)
    wide = at.build.convert(found, ElementType.S32)
    if given.zero is not None:
        wide = less(at, wide, slices(at, given.zero, ()))
    return scaled(at, wide, slices(at, given.scale, ()))


def _is_positive(x: Instruction) -> bool:
    """Whether a number, the only element of its array, is known: above 0, and not infinite."""
    x = plain(x)
    while x.opcode is Opcode.RESHAPE:
        x = plain(x.operands[0])
    if x.opcode is not Opcode.CONSTANT or x.shape.element_count != 1:
        return False
    literal = x.attributes_as(Constant).literal
    return not literal.elided and 0 < literal.array.item() < _INFINITY


def _is_of_greatest(x: Instruction) -> bool:
    """Whether windows give the greatest of their elements, beginning with the least of all."""
    start = scalar_value(x.operands[1])
    is_least = start is not None and x.shape.element_type is ElementType.F32 and start == -_INFINITY
    return is_least and reducer_opcode(x.called_computations[0]) is Opcode.MAXIMUM


_INFINITY: Final = float("inf")


def _meets_all(d: WindowDimension, size: int, places: int) -> bool:
    """Whether a window meets an element at each of its places along a dimension."""
    if d.base_dilation != 1 or d.window_dilation != 1 or not size:
        return False
    last = (places - 1) * d.stride - d.padding_low
    return d.padding_low < d.size and last < size
