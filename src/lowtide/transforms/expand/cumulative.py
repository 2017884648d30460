"""Windows that grow by one element at each place, as scans: sums and products so far.

The windows are those as long as a dimension, padded by one less on one side: sums from the start to
each place, or from there to the end. Any number of operands and any elementwise computation will
do. The work is n instead of n**2. Sums and products of floating point numbers are carried in f64
(c128) and rounded at each place, since the rounding errors of n steps in the type itself would add
up. Windows that grow along several dimensions become a scan for each, where the reducer is one
operation whose neutral element is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Computation, ElementType, Instruction, Opcode, array_shape
from lowtide.ir.attributes import ReduceWindow, Scan, WindowDimension
from lowtide.ops.reducers import reducer_opcode
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import identity_of
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import (
    applied,
    expander,
    expansion,
    is_elementwise,
    narrowed,
    spread_to,
)
from lowtide.transforms.simplify.support import Made


@expander(Opcode.REDUCE_WINDOW)
def cumulative_window(x: Instruction, at: Rewriter) -> Made:
    """reduce-window(x, v), window={size=n pad=n-1_0} => scan(x, broadcast(v))"""
    (combine,) = x.called_computations
    count = len(x.operands) // 2
    sizes = x.operands[0].shape.dimensions
    windows = x.attributes_as(ReduceWindow).window.dimensions
    kinds = [_direction(size, window) for size, window in zip(sizes, windows, strict=True)]
    grown = [i for i, kind in enumerate(kinds) if kind]
    if None in kinds or not grown or 0 in sizes or not _is_uniform(x, combine):
        return None
    values = [at(y) for y in x.operands[:count]]
    starts = [at(y) for y in x.operands[count:]]
    neutral = starts if len(grown) == 1 else _neutral(at, combine)
    if neutral is None:
        return None
    for i in grown:
        start = starts if i == grown[-1] else neutral
        values = _scanned(combine, values, start, i, is_reverse=kinds[i] == _TO_END)
    return at.build.tuple(values) if x.shape.is_tuple else values[0]


_FROM_START: Final = 1
_TO_END: Final = -1


def _direction(size: int, window: WindowDimension) -> int | None:
    """Which way a window grows along a dimension; 0 is that of one element, None any other."""
    if window.stride != 1 or window.window_dilation != 1 or window.base_dilation != 1:
        return None
    padding = window.padding_low, window.padding_high
    if window.size == 1 and padding == (0, 0):
        return 0
    if window.size != size:
        return None
    return {(size - 1, 0): _FROM_START, (0, size - 1): _TO_END}.get(padding)


def _is_uniform(x: Instruction, combine: Computation) -> bool:
    """Whether the computation takes and gives just the types of the operands."""
    results = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    types = [y.element_type for y in results]
    root = combine.root
    made = root.operands if root.opcode is Opcode.TUPLE else (root,)
    return (
        is_elementwise(combine)
        and [y.shape.element_type for y in x.operands] == 2 * types
        and [p.shape.element_type for p in combine.parameters] == 2 * types
        and [y.shape.element_type for y in made] == types
    )


def _neutral(at: Rewriter, combine: Computation) -> list[Op] | None:
    opcode = reducer_opcode(combine)
    if opcode is None:
        return None
    element_type = combine.root.shape.element_type
    return [at.build.constant(identity_of(opcode, element_type), element_type)]


def _scanned(
    combine: Computation, values: Sequence[Op], starts: Sequence[Op], i: int, *, is_reverse: bool
) -> list[Op]:
    """The values combined with all those before (or behind) them along dimension `i`."""
    build = values[0].builder
    count = len(values)
    sizes = values[0].dimensions
    sizes = (*sizes[:i], *sizes[i + 1 :])
    types = [value.element_type for value in values]
    opcode = reducer_opcode(combine)
    wide = _carried_type(opcode, types[0])

    def step(*given: Op) -> Op:
        """Slices and carries to slices of the outputs and carries."""
        old, new = given[count:], given[:count]
        if wide is None or opcode is None:
            met = applied(
                new[0].builder, combine, [*new, *old] if is_reverse else [*old, *new], sizes
            )
            return met[0].builder.tuple([*met, *met])
        made = new[0].builder.emit(opcode, [*old, narrowed(new[0], wide)])
        return made.builder.tuple([narrowed(made, types[0]), made])

    carried = types if wide is None else [wide]
    shapes = [array_shape(kind, sizes) for kind in [*types, *carried]]
    body = build.sub_computation("step", shapes, step)
    first = [
        spread_to(narrowed(start, kind), sizes) for start, kind in zip(starts, carried, strict=True)
    ]
    how = Scan(i, count, is_reverse, is_associative=wide is None)
    made = build.emit(Opcode.SCAN, [*values, *first], how, [body])
    return list(made)[:count]


def _carried_type(opcode: Opcode | None, element_type: ElementType) -> ElementType | None:
    """The wider type in which sums and products are carried; None where it is their own."""
    if opcode not in (Opcode.ADD, Opcode.MULTIPLY):
        return None
    if element_type.is_complex:
        return ElementType.C128 if element_type is not ElementType.C128 else None
    is_wider = element_type.is_floating and element_type is not ElementType.F64
    return ElementType.F64 if is_wider else None


RULES: Final = (cumulative_window,)

PASSES: Final = (
    Pass(
        "expand-cumulative-window",
        expansion(RULES),
        "Writes cumulative sums, given as windows that grow, as scans.",
        *example(
            """
HloModule m

-add {
- a = f32[] parameter(0)
- b = f32[] parameter(1)
- ROOT c = f32[] add(a, b)
+step {
+ p1 = f64[] parameter(1)
+ p0 = f32[] parameter(0)
+ convert.1 = f64[] convert(p0)
+ add = f64[] add(p1, convert.1)
+ convert.2 = f32[] convert(add)
+ ROOT tuple = (f32[], f64[]) tuple(convert.2, add)
}

ENTRY main {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
- ROOT y = f32[4] reduce-window(x, zero), window={size=4 pad=3_0}, to_apply=add
+ convert = f64[] convert(zero)
+ scan = (f32[4], f64[]) scan(x, convert), dimensions={0}, num_carries=1, is_associative=false,
+   to_apply=step
+ ROOT get-tuple-element = f32[4] get-tuple-element(scan), index=0
}
"""
        ),
    ),
)
