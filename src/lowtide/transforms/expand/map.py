"""Maps of scalars as the same operations on arrays.

Maps of computations that are not elementwise stay.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import applied, expander, expansion, is_elementwise
from lowtide.transforms.simplify.support import Made


@expander(Opcode.MAP)
def map_(x: Instruction, at: Rewriter) -> Made:
    """map(x, y), to_apply=f => f(x, y)"""
    (body,) = x.called_computations
    if not is_elementwise(body) or body.root.opcode is Opcode.TUPLE:
        return None
    if any(p.shape.element_type is not y.shape.element_type for p, y in _arguments(x)):
        return None
    if body.root.shape.element_type is not x.shape.element_type:
        return None
    return applied(at.build, body, [at(y) for y in x.operands], x.shape.dimensions)[0]


def _arguments(x: Instruction) -> list[tuple[Instruction, Instruction]]:
    return list(zip(x.called_computations[0].parameters, x.operands, strict=True))


RULES: Final = (map_,)

PASSES: Final = (
    Pass(
        "expand-map",
        expansion(RULES),
        "Writes maps of scalars as the same operations on whole arrays.",
        *example(
            """
HloModule m

-twice_and_one {
- a = f32[] parameter(0)
- b = f32[] parameter(1)
- one = f32[] constant(1)
- sum = f32[] add(a, b)
- ROOT r = f32[] add(sum, one)
+ENTRY main {
+ x = f32[4] parameter(0)
+ add = f32[4] add(x, x)
+ constant = f32[] constant(1)
+ broadcast = f32[4] broadcast(constant), dimensions={}
+ ROOT add.1 = f32[4] add(add, broadcast)
}

-ENTRY main {
- x = f32[4] parameter(0)
- ROOT y = f32[4] map(x, x), dimensions={0}, to_apply=twice_and_one
-}
-"""
        ),
    ),
)
