"""Products with truth values as selections: what XLA:CPU makes of them ahead of all else.

So an infinity or NaN times false is 0 there, whatever HLO says of products. Programs of JAX count
on that, also op by op: `x * (x > 0)` is one program, with the conversion in it.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir import ElementType, Instruction, Module, Opcode
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter, RuleTable, rewrite
from lowtide.transforms.simplify.selection import masked_product, truth_value
from lowtide.transforms.simplify.support import INEXACT, Made, elementwise, splat

_ON: Final = INEXACT - {ElementType.BF16}
"""XLA:CPU computes products of bf16 in f32, which it finds out before."""


@elementwise(Opcode.MULTIPLY, on=_ON, of=(Opcode.CONVERT,), exact=False)
def masked_as_in_xla(multiply: Instruction, at: Rewriter) -> Made:
    """Return select(p, x, 0) for x * convert(p), where p is a truth value."""
    return masked_product(multiply, at)


@elementwise(Opcode.MULTIPLY, on=_ON, of=(Opcode.RESHAPE,), exact=False)
def masked_reshaped(multiply: Instruction, at: Rewriter) -> Made:
    """Return the same for reshape(x) * reshape(convert(p)), where x and p have one shape."""
    left, right = multiply.operands
    if left.opcode is not Opcode.RESHAPE or right.opcode is not Opcode.RESHAPE:
        return None
    for x, mask in ((left, right), (right, left)):
        p = truth_value(mask.operands[0])
        if p is not None and mask.operands[0].shape is x.operands[0].shape:
            chosen = at.build.reshape(at(p), multiply.shape.dimensions)
            return at.build.select(chosen, at(x), splat(at, 0, multiply.shape))
    return None


_TABLE: Final = RuleTable.of([masked_as_in_xla, masked_reshaped])


def select_masked(module: Module) -> int:
    """Select where a float is multiplied by a converted truth value; return the changes."""
    return rewrite(module, _TABLE).total()


PASSES: Final = (
    Pass(
        "masked-products",
        select_masked,
        "Selects where floats are multiplied by truth values, as XLA:CPU does.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  p = pred[4] parameter(1)
- mask = f32[4] convert(p)
- ROOT kept = f32[4] multiply(x, mask)
+ zero = f32[] constant(0)
+ zeros = f32[4] broadcast(zero), dimensions={}
+ ROOT kept = f32[4] select(p, x, zeros)
}
"""
        ),
    ),
)
