"""Windows that grow by one element at each place: sums and products so far, in log(n) steps."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import ReduceWindow, WindowDimension
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import applied, expand, expander, is_elementwise, spread_to
from lowtide.transforms.simplify.support import Made


def expand_cumulative_windows(module: Module) -> int:
    """Write cumulative reduce-windows as log2(n) steps on whole arrays; return how many changes.

    They are those whose window is as long as a dimension, padded by one less on one side: sums from
    the start to each place, or from there to the end. Any number of operands and any elementwise
    computation will do. The work is n log2(n) instead of n**2.

    Source: W. D. Hillis and G. L. Steele (1986), "Data parallel algorithms".
    """
    return expand(module, RULES)


@expander(Opcode.REDUCE_WINDOW)
def cumulative_window(x: Instruction, at: Rewriter) -> Made:
    """reduce-window(x, v), window={size=n pad=n-1_0} => ... (x op shift(x, 1)) op shift(.., 2)"""
    (combine,) = x.called_computations
    count = len(x.operands) // 2
    sizes = x.operands[0].shape.dimensions
    windows = x.attributes_as(ReduceWindow).window.dimensions
    kinds = [_direction(size, window) for size, window in zip(sizes, windows, strict=True)]
    if None in kinds or not any(kinds) or not _is_uniform(x, combine):
        return None
    values = [at(y) for y in x.operands[:count]]
    for dimension, kind in enumerate(kinds):
        if kind:
            values = _scanned(combine, values, dimension, kind)
    inits = [spread_to(at(y), sizes) for y in x.operands[count:]]
    made = applied(at.build, combine, [*inits, *values], sizes)
    return at.build.tuple(made) if x.shape.is_tuple else made[0]


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


def _scanned(combine: Computation, values: list[Op], dimension: int, kind: int) -> list[Op]:
    """The values combined with all those before (or behind) them along a dimension."""
    size = values[0].dimensions[dimension]
    step = 1
    while step < size:
        values = _step(combine, values, dimension, kind * step)
        step *= 2
    return values


def _step(combine: Computation, values: list[Op], dimension: int, shift: int) -> list[Op]:
    """The values combined with those `shift` places before them, where there are such."""
    size = values[0].dimensions[dimension]
    far = abs(shift)
    heads = [_part(x, dimension, 0, size - far) for x in values]
    tails = [_part(x, dimension, far, size) for x in values]
    met = applied(values[0].builder, combine, [*heads, *tails], heads[0].dimensions)
    joined = []
    for value, part in zip(values, met, strict=True):
        if shift > 0:
            pieces = [_part(value, dimension, 0, far), part]
        else:
            pieces = [part, _part(value, dimension, size - far, size)]
        joined.append(value.builder.concatenate(pieces, dimension))
    return joined


def _part(value: Op, dimension: int, start: int, limit: int) -> Op:
    starts = [0] * value.rank
    limits = list(value.dimensions)
    starts[dimension], limits[dimension] = start, limit
    return value.builder.slice(value, starts, limits)


RULES: Final = (cumulative_window,)

PASSES: Final = (
    Pass(
        "expand-cumulative-window",
        expand_cumulative_windows,
        "Writes cumulative sums, given as windows that grow, as log(n) steps on whole arrays.",
        before="""
HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
  ROOT y = f32[4] reduce-window(x, zero), window={size=4 pad=3_0}, to_apply=add
}
""",
        after="""
HloModule m

ENTRY main {
  zero = f32[] constant(0)
  broadcast = f32[4] broadcast(zero), dimensions={}
  x = f32[4] parameter(0)
  slice.2 = f32[1] slice(x), slice={[0:1]}
  slice = f32[3] slice(x), slice={[0:3]}
  slice.1 = f32[3] slice(x), slice={[1:4]}
  add = f32[3] add(slice, slice.1)
  concatenate = f32[4] concatenate(slice.2, add), dimensions={0}
  slice.5 = f32[2] slice(concatenate), slice={[0:2]}
  slice.3 = f32[2] slice(concatenate), slice={[0:2]}
  slice.4 = f32[2] slice(concatenate), slice={[2:4]}
  add.1 = f32[2] add(slice.3, slice.4)
  concatenate.1 = f32[4] concatenate(slice.5, add.1), dimensions={0}
  ROOT add.2 = f32[4] add(broadcast, concatenate.1)
}
""",
    ),
)
