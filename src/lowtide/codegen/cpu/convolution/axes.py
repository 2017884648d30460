"""Dimensions of a convolution's products: of rows, of the input, and of what is contracted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.records import dataclass

BATCH: Final = -1
"""The axis of the batch; axes along which the window slides are numbered from 0."""

FEATURE: Final = -2
"""The axis of the features that are contracted."""

LANE: Final = -3
"""The axis of the output features, where each of them has input features of its own."""


@dataclass(frozen=True, slots=True)
class Row:
    """A dimension of the rows: the batch, or an axis that the window slides along.

    `size` is that of the longest phase, `least` of the shortest; neighbours lie `out_step` elements
    apart in the result.
    """

    axis: int
    size: int
    least: int
    out_step: int


@dataclass(frozen=True, slots=True)
class InputAxis:
    """A dimension of the part of the input that a piece of work reads: `extent` at most."""

    kind: int
    extent: int
    step: int


@dataclass(frozen=True, slots=True)
class StepLoop:
    """A loop over contracted indices: the dimensions merged in it, outermost first.

    `size` is None where it is known only when the kernel runs. Steps are in units.
    """

    kinds: tuple[int, ...]
    size: int | None
    a_step: int
    b_step: int


def memory_order(problem: ConvolutionProblem) -> list[int]:
    """Return the dimensions of the input as they lie in memory, outermost first.

    One with a single element may have the step of the features: these come behind it then.
    """
    steps, feature = strides(problem.input), problem.numbers.input_feature
    return sorted(range(problem.input.rank), key=lambda d: (-steps[d], d == feature))


def axes_of(problem: ConvolutionProblem) -> tuple[InputAxis, ...]:
    """Return how the input of a convolution lies in memory, in units, outermost first."""
    numbers, shape = problem.numbers, problem.input
    kinds = {numbers.input_batch: BATCH, numbers.input_feature: FEATURE}
    kinds |= {d: i for i, d in enumerate(numbers.input_spatial)}
    steps = strides(shape)
    unit, feature = problem.unit, numbers.input_feature
    order = memory_order(problem)
    sizes = list(shape.dimensions)
    if unit > 1:
        sizes[feature] = -(-sizes[feature] // unit)
        steps = tuple([step if d == feature else step // unit for d, step in enumerate(steps)])
    return tuple([InputAxis(kinds[d], sizes[d], steps[d]) for d in order])


def merged_loops(loops: Sequence[StepLoop]) -> list[StepLoop]:
    """Return loops, outermost first, with those made one that go on where the one in them ends."""
    merged: list[StepLoop] = []
    for x in loops:
        last = merged[-1] if merged else None
        if last is not None and _follows(last, x):
            whole = None if last.size is None or x.size is None else last.size * x.size
            merged[-1] = StepLoop((*last.kinds, *x.kinds), whole, x.a_step, x.b_step)
        else:
            merged.append(x)
    return merged


def _follows(outer: StepLoop, inner: StepLoop) -> bool:
    """Whether a loop goes on where the one in it ends."""
    size = inner.size
    if size is None:
        return False
    return outer.a_step == inner.a_step * size and outer.b_step == inner.b_step * size
