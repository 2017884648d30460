"""The logistic function as an exponential and a quotient.

Numbers narrower than 32 bits are computed in f32. Complex ones stay: their exponential overflows
where the function does not.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander, expansion, narrowed, widened
from lowtide.transforms.simplify.support import Made


@expander(Opcode.LOGISTIC)
def write_logistic(x: Instruction, at: Rewriter) -> Made:
    """logistic(x) => 1 / (1 + exp(-x))"""
    element_type = x.shape.element_type
    if not element_type.is_floating or x.operands[0].shape is not x.shape:
        return None
    operand = widened(at, x.operands[0])
    one = at.build.constant(1, operand.element_type)
    return narrowed(one / (at.build.exponential(-operand) + one), element_type)


RULES: Final = (write_logistic,)

PASSES: Final = (
    Pass(
        "expand-logistic",
        expansion(RULES),
        "Writes 1 / (1 + exp(-x)) for logistic(x).",
        *example(
            """
HloModule m

ENTRY main {
+ constant = f32[] constant(1)
+ broadcast.1 = f32[4] broadcast(constant), dimensions={}
  x = bf16[4] parameter(0)
- ROOT y = bf16[4] logistic(x)
+ convert = f32[4] convert(x)
+ negate = f32[4] negate(convert)
+ exponential = f32[4] exponential(negate)
+ broadcast = f32[4] broadcast(constant), dimensions={}
+ add = f32[4] add(exponential, broadcast)
+ divide = f32[4] divide(broadcast.1, add)
+ ROOT convert.1 = bf16[4] convert(divide)
}
"""
        ),
    ),
)
