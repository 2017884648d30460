"""Scans whose steps are more than chains of single elements, as loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Scan
from lowtide.ops.scan_steps import has_chains
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.loops import counted, starts
from lowtide.transforms.expand.support import expand, expander, spread_to
from lowtide.transforms.simplify.support import Made


def expand_scans(module: Module) -> int:
    """Write scans whose steps mix elements as loops that call them; return how many changes.

    Scans that are a chain of steps for each element stay: one kernel runs such chains side by side.
    """
    return expand(module, RULES)


@expander(Opcode.SCAN)
def scan_as_loop(x: Instruction, at: Rewriter) -> Made:
    """A scan of f from v over x => a loop over y[i], v = f(x[i], v)."""
    if has_chains(x) or _steps(x) > _MOST_STEPS:
        return None
    how = x.attributes_as(Scan)
    count = len(x.operands) - how.num_carries
    steps = _steps(x)
    body = SubComputation(x.called_computations[0])
    inputs, carries = [at(y) for y in x.operands[:count]], [at(y) for y in x.operands[count:]]
    shapes = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    stacks = [
        spread_to(at.build.constant(0, shape.element_type), shape.dimensions)
        for shape in shapes[: len(shapes) - how.num_carries]
    ]

    def step(number: Op, *state: Op) -> Sequence[Op]:
        place = steps - 1 - number if how.is_reverse else number
        slices = [_slice(y, place, how.dimension) for y in state[:count]]
        last = len(state) - how.num_carries
        made = number.builder.call([*slices, *state[last:]], body)
        parts = list(made) if made.shape.is_tuple else [made]
        stacked = [
            _put(stack, part, place, how.dimension)
            for stack, part in zip(state[count:last], parts, strict=False)
        ]
        return [*state[:count], *stacked, *parts[len(stacked) :]]

    made = [*stacks, *carries]
    if steps:  # No slice could be taken of an array without any.
        made = counted(steps, [*inputs, *made], step)[count:]
    return at.build.tuple(made) if x.shape.is_tuple else made[0]


_MOST_STEPS: Final = 2**31 - 1
"""The loop counts in s32."""


def _steps(scan: Instruction) -> int:
    return scan.operands[0].shape.dimensions[scan.attributes_as(Scan).dimension]


def _slice(x: Op, place: Op, dimension: int) -> Op:
    """What an array has at one place of a dimension, without that dimension."""
    sizes = list(x.dimensions)
    sizes[dimension] = 1
    part = x.builder.dynamic_slice(x, starts(x, place, dimension), sizes)
    del sizes[dimension]
    return x.builder.reshape(part, sizes)


def _put(stack: Op, part: Op, place: Op, dimension: int) -> Op:
    """An array with a slice put at one place of a dimension."""
    sizes = list(stack.dimensions)
    sizes[dimension] = 1
    build = stack.builder
    return build.dynamic_update_slice(
        stack, build.reshape(part, sizes), starts(stack, place, dimension)
    )


RULES: Final = (scan_as_loop,)

PASSES: Final = (
    Pass(
        "expand-scan",
        expand_scans,
        "Writes scans whose steps mix elements as loops.",
        *example(
            """
HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

step {
  row = f32[4] parameter(0)
  total = f32[] parameter(1)
  ROOT next = f32[] reduce(row, total), dimensions={0}, to_apply=sum
}

+body {
+ b = (s32[], f32[3,4], f32[]) parameter(0)
+ i = s32[] get-tuple-element(b), index=0
+ one = s32[] constant(1)
+ more = s32[] add(i, one)
+ rows = f32[3,4] get-tuple-element(b), index=1
+ first = s32[] constant(0)
+ part = f32[1,4] dynamic-slice(rows, i, first), dynamic_slice_sizes={1,4}
+ row.1 = f32[4] reshape(part)
+ old = f32[] get-tuple-element(b), index=2
+ new = f32[] call(row.1, old), to_apply=step
+ ROOT r = (s32[], f32[3,4], f32[]) tuple(more, rows, new)
+}
+
+condition {
+ c = (s32[], f32[3,4], f32[]) parameter(0)
+ i.1 = s32[] get-tuple-element(c), index=0
+ n = s32[] constant(3)
+ ROOT is_more = pred[] compare(i.1, n), direction=LT
+}
+
ENTRY main {
+ none = s32[] constant(0)
  x = f32[3,4] parameter(0)
  zero = f32[] constant(0)
- ROOT y = f32[] scan(x, zero), dimensions={0}, num_carries=1, to_apply=step
+ start = (s32[], f32[3,4], f32[]) tuple(none, x, zero)
+ loop = (s32[], f32[3,4], f32[]) while(start), condition=condition, body=body
+ ROOT y = f32[] get-tuple-element(loop), index=2
}
"""
        ),
    ),
)
