"""Select-and-scatter as the place that each window selects, and a scatter to these places.

Windows that lie in the padding select nothing. The selection has to be elementwise, and to order
the elements (as GE and LE do).
"""

from __future__ import annotations

import math
from typing import Final

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Computation, ElementType, Instruction, Opcode, Shape, array_shape
from lowtide.ir.attributes import ReduceWindow, Scatter
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import (
    applied,
    expander,
    expansion,
    is_elementwise,
    spread_to,
)
from lowtide.transforms.simplify.support import Made


@expander(Opcode.SELECT_AND_SCATTER)
def select_and_scatter(x: Instruction, at: Rewriter) -> Made:
    """select-and-scatter(x, s, v) => scatter(broadcast(v), places, s)"""
    operand, source, init = x.operands
    select, combine = x.called_computations
    if not operand.shape.rank or not is_elementwise(select) or not operand.shape.element_count:
        return None
    places = _places(at, x)
    count = source.shape.element_count
    rows = at.build.reshape(places, (count, 1))
    updates = at.build.reshape(at(source), (count,))
    into = spread_to(at(init), (operand.shape.element_count,))
    scattered = at.build.emit(
        Opcode.SCATTER, [into, rows, updates], _ROWS, [SubComputation(combine)]
    )
    return at.build.reshape(scattered, x.shape.dimensions)


_ROWS: Final = Scatter((), (0,), (0,), 1)
"""One number for each update: the place in an array of one dimension."""


def _places(at: Rewriter, x: Instruction) -> Op:
    """The place in the flat operand that each window selects, -1 where it selects none."""
    operand = x.operands[0]
    sizes = operand.shape.dimensions
    few = math.prod(sizes) < 1 << 31
    index_type = ElementType.S32 if few else ElementType.S64
    flat = at.build.iota(array_shape(index_type, (math.prod(sizes),)))
    numbers = at.build.reshape(flat, sizes)
    none = at.build.constant(-1, index_type)
    element_type = operand.shape.element_type
    shapes = [array_shape(y) for y in (element_type, index_type)] * 2
    better = _better(at, x.called_computations[0], shapes)
    start = at.build.constant(0, element_type)
    window = x.attributes_as(ReduceWindow)
    chosen = at.build.emit(
        Opcode.REDUCE_WINDOW, [at(operand), numbers, start, none], window, [better]
    )
    return chosen[1]


def _better(at: Rewriter, select: Computation, shapes: list[Shape]) -> SubComputation:
    """The one of two (value, place) that a window keeps; place -1 stands for no element."""

    def choose(value: Op, place: Op, other: Op, other_place: Op) -> Op:
        build = value.builder
        is_kept = applied(build, select, [value, other], ())[0]
        is_kept = place.ge(0) & (is_kept | other_place.lt(0))
        return build.tuple(
            [build.select(is_kept, value, other), build.select(is_kept, place, other_place)]
        )

    return at.build.sub_computation("selected", shapes, choose)


RULES: Final = (select_and_scatter,)

PASSES: Final = (
    Pass(
        "expand-select-and-scatter",
        expansion(RULES),
        "Writes select-and-scatter as the place that each window selects, and a scatter.",
        *example(
            """
HloModule m

-ge {
- a = f32[] parameter(0)
- b = f32[] parameter(1)
- ROOT c = pred[] compare(a, b), direction=GE
+selected {
+ p1 = s32[] parameter(1)
+ constant.2 = s32[] constant(0)
+ compare.1 = pred[] compare(p1, constant.2), direction=GE
+ p0 = f32[] parameter(0)
+ p2 = f32[] parameter(2)
+ compare = pred[] compare(p0, p2), direction=GE
+ p3 = s32[] parameter(3)
+ constant.3 = s32[] constant(0)
+ compare.2 = pred[] compare(p3, constant.3), direction=LT
+ or = pred[] or(compare, compare.2)
+ and = pred[] and(compare.1, or)
+ select = f32[] select(and, p0, p2)
+ select.1 = s32[] select(and, p1, p3)
+ ROOT tuple = (f32[], s32[]) tuple(select, select.1)
}

add {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT c.1 = f32[] add(a.1, b.1)
}

ENTRY main {
+ v = f32[] parameter(2)
+ broadcast = f32[4] broadcast(v), dimensions={}
  x = f32[4] parameter(0)
+ iota = s32[4] iota(), iota_dimension=0
+ reshape = s32[4] reshape(iota)
+ constant.1 = f32[] constant(0)
+ constant = s32[] constant(-1)
+ reduce-window = (f32[2], s32[2]) reduce-window(x, reshape, constant.1, constant), window={size=2
+   stride=2}, to_apply=selected
+ get-tuple-element = s32[2] get-tuple-element(reduce-window), index=1
+ reshape.1 = s32[2,1] reshape(get-tuple-element)
  s = f32[2] parameter(1)
- v = f32[] parameter(2)
- ROOT y = f32[4] select-and-scatter(x, s, v), window={size=2 stride=2}, select=ge, scatter=add
+ reshape.2 = f32[2] reshape(s)
+ scatter = f32[4] scatter(broadcast, reshape.1, reshape.2), update_window_dims={},
+   inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
+ ROOT reshape.3 = f32[4] reshape(scatter)
}
"""
        ),
    ),
)
