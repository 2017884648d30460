"""Comparisons in the total order of floating point numbers as comparisons of integers."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Computation, ElementType, Instruction, Module, Opcode
from lowtide.ir.attributes import Compare
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expand, expander
from lowtide.transforms.simplify.support import Made


def expand_total_order(module: Module) -> int:
    """Compare bits where floating point numbers are compared in total order; return how often.

    Comparisons that sorts call stay, since a sort knows this order from them.
    """
    sorting: set[Computation] = set()
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is Opcode.SORT:
                sorting.update(x.called_computations)
    others = [x for x in module.computations.values() if x not in sorting]
    return expand(module, RULES, others)


_WORDS: Final = {
    ElementType.F16: ElementType.S16,
    ElementType.BF16: ElementType.S16,
    ElementType.F32: ElementType.S32,
    ElementType.F64: ElementType.S64,
}


@expander(Opcode.COMPARE)
def total_order(x: Instruction, at: Rewriter) -> Made:
    """compare(x, y), type=TOTALORDER => compare(key(x), key(y)), which are integers"""
    how = x.attributes_as(Compare)
    left, right = x.operands
    word = _WORDS.get(left.shape.element_type)
    if how.type != "TOTALORDER" or word is None or left.shape is not right.shape:
        return None
    return at.build.compare(_key(at, left, word), _key(at, right, word), how.direction)


def _key(at: Rewriter, x: Instruction, word: ElementType) -> Op:
    """The bits of x, all but the sign turned over where that is set, so that they count upwards."""
    bits = at.build.bitcast_convert(at(x), word)
    turned = bits ^ at.build.constant((1 << word.bits - 1) - 1, word)
    return at.build.select(bits.lt(0), turned, bits)


RULES: Final = (total_order,)

PASSES: Final = (
    Pass(
        "expand-total-order",
        expand_total_order,
        "Compares integers where floating point numbers are compared in total order.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[] parameter(0)
+ bitcast-convert = s32[] bitcast-convert(x)
+ constant.1 = s32[] constant(0)
+ compare = pred[] compare(bitcast-convert, constant.1), direction=LT
+ constant = s32[] constant(2147483647)
+ xor = s32[] xor(bitcast-convert, constant)
+ select = s32[] select(compare, xor, bitcast-convert)
  y = f32[] parameter(1)
- ROOT z = pred[] compare(x, y), direction=LT, type=TOTALORDER
+ bitcast-convert.1 = s32[] bitcast-convert(y)
+ constant.3 = s32[] constant(0)
+ compare.1 = pred[] compare(bitcast-convert.1, constant.3), direction=LT
+ constant.2 = s32[] constant(2147483647)
+ xor.1 = s32[] xor(bitcast-convert.1, constant.2)
+ select.1 = s32[] select(compare.1, xor.1, bitcast-convert.1)
+ ROOT compare.2 = pred[] compare(select, select.1), direction=LT
}
"""
        ),
    ),
)
