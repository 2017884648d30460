"""Products of numbers with scales for blocks of them as products of plain numbers.

The products are in f32 where the numbers are narrower. Fusion makes the operands where the dot
packs them, so that no scaled array is held.
"""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dot
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander, expansion, widened
from lowtide.transforms.simplify.support import Made


@expander(Opcode.SCALED_DOT)
def scaled_dot(x: Instruction, at: Rewriter) -> Made:
    """scaled-dot(a, b, s, t) => dot(a * broadcast(s), b * broadcast(t))"""
    made = [_scaled(at, *x.operands[i::2]) for i in range(2)]
    if made[0] is None or made[1] is None:
        return None
    how = x.attributes_as(Dot)
    return at.build.dot(made[0], made[1], how.dimensions, how.precision, x.shape.element_type)


def _scaled(at: Rewriter, x: Instruction, scale: Instruction) -> Op | None:
    """Each element times the scale of its block, None where blocks do not fit."""
    sizes, counts = x.shape.dimensions, scale.shape.dimensions
    if len(sizes) != len(counts) or 0 in counts:
        return None
    if any(size % count for size, count in zip(sizes, counts, strict=True)):
        return None
    operand, factors = widened(at, x), widened(at, scale)
    if operand.element_type is not factors.element_type:
        return None
    pairs = [(count, size // count) for size, count in zip(sizes, counts, strict=True)]
    blocks = [n for pair in pairs for n in pair]
    spread = at.build.broadcast(factors, blocks, tuple(range(0, len(blocks), 2)))
    return operand * at.build.reshape(spread, sizes)


RULES: Final = (scaled_dot,)

PASSES: Final = (
    Pass(
        "expand-scaled-dot",
        expansion(RULES),
        "Multiplies with the scales of a scaled-dot before a plain dot.",
        *example(
            """
HloModule m

ENTRY main {
  a = f8e4m3fn[4,8] parameter(0)
+ convert = f32[4,8] convert(a)
+ s = f32[4,2] parameter(2)
+ broadcast = f32[4,1,2,4]{3,2,1,0} broadcast(s), dimensions={0,2}
+ reshape = f32[4,8] reshape(broadcast)
+ multiply = f32[4,8] multiply(convert, reshape)
  b = f32[8,2] parameter(1)
- s = f32[4,2] parameter(2)
  t = f32[1,2] parameter(3)
- ROOT y = f32[4,2] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ broadcast.1 = f32[1,8,2,1]{3,2,1,0} broadcast(t), dimensions={0,2}
+ reshape.1 = f32[8,2] reshape(broadcast.1)
+ multiply.1 = f32[8,2] multiply(b, reshape.1)
+ ROOT dot = f32[4,2] dot(multiply, multiply.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
        ),
    ),
)
