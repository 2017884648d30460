"""The greatest elements of rows as a sort and slices of it."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.ir.attributes import Compare, TopK
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander, expansion
from lowtide.transforms.simplify.support import Made


@expander(Opcode.TOPK)
def write_topk(x: Instruction, at: Rewriter) -> Made:
    """topk(x) => (slice(sorted x), slice(places))"""
    how = x.attributes_as(TopK)
    operand = x.operands[0]
    shape = operand.shape
    element_type, index_type = [y.element_type for y in x.shape.tuple_shapes]
    if element_type.is_complex or how.k > shape.dimensions[-1]:
        return None
    places = at.build.iota(array_shape(index_type, shape.dimensions), shape.rank - 1)
    order = "TOTALORDER" if element_type.is_floating else _INTEGER[element_type.is_signed]
    compare = Compare("GT" if how.largest else "LT", order)

    def is_before(a: Op, b: Op, _a_place: Op, _b_place: Op) -> Op:
        return a.builder.emit(Opcode.COMPARE, [a, b], compare)

    scalars = [array_shape(y) for y in (element_type, element_type, index_type, index_type)]
    comparator = at.build.sub_computation("is_before", scalars, is_before)
    made = at.build.sort([at(operand), places], comparator, is_stable=True)
    limits = (*shape.dimensions[:-1], how.k)
    return at.build.tuple([at.build.slice(y, (0,) * shape.rank, limits) for y in made])


_INTEGER: Final = {True: "SIGNED", False: "UNSIGNED"}

RULES: Final = (write_topk,)

PASSES: Final = (
    Pass(
        "expand-topk",
        expansion(RULES),
        "Writes topk as a stable sort and slices.",
        *example(
            """
HloModule m

+is_before {
+ p2 = s32[] parameter(2)
+ p3 = s32[] parameter(3)
+ p0 = f32[] parameter(0)
+ p1 = f32[] parameter(1)
+ ROOT compare = pred[] compare(p0, p1), direction=GT, type=TOTALORDER
+}
+
ENTRY main {
  x = f32[2,8] parameter(0)
- ROOT y = (f32[2,3], s32[2,3]) topk(x), k=3, largest=true
+ iota = s32[2,8] iota(), iota_dimension=1
+ sort = (f32[2,8], s32[2,8]) sort(x, iota), dimensions={1}, is_stable=true, to_apply=is_before
+ get-tuple-element = f32[2,8] get-tuple-element(sort), index=0
+ slice = f32[2,3] slice(get-tuple-element), slice={[0:2], [0:3]}
+ get-tuple-element.1 = s32[2,8] get-tuple-element(sort), index=1
+ slice.1 = s32[2,3] slice(get-tuple-element.1), slice={[0:2], [0:3]}
+ ROOT tuple = (f32[2,3], s32[2,3]) tuple(slice, slice.1)
}
"""
        ),
    ),
)
