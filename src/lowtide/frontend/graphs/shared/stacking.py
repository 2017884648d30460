"""Loops whose number of steps is known, which read a row in each step and stack what steps give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import OpGraph
from lowtide.frontend.graphs.shared.control import captured
from lowtide.frontend.graphs.shared.loops import part_at, repeat_steps, with_part
from lowtide.ir import Shape, array_shape
from lowtide.ir.literal import DTYPES
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class SteppedGraph:
    """The graph of a step: it takes `leading` values, what is carried, and a row of each sequence.

    It gives what is carried, and then what is stacked. `leading` makes values of the step's number.
    """

    graph: OpGraph
    leading: Callable[[Builder, Op], Sequence[Expression]]


def run_steps(
    context: OpKernelContext,
    step: SteppedGraph,
    count: int,
    carried: Sequence[Expression],
    sequences: Sequence[Op] = (),
) -> tuple[list[Op], list[Op]]:
    """Return what is carried after `count` steps, and what they gave, stacked.

    Stacks have steps along their first dimension, `sequences` their rows. Raises GraphError where a
    carried value changes its type.
    """
    b = context.builder
    known, names = captured(context, step.graph)
    around = [context.scope[x] for x in names]
    shapes = _shapes(context, step, carried, sequences, known, names)
    for number, (before, after) in enumerate(zip(carried, shapes, strict=False)):
        if not before.shape.compatible(after):
            raise context.error(
                f"value {number} of the loop changes its type from "
                f"{before.shape.text(layout=False)} to {after.text(layout=False)}"
            )
    many, rows = len(carried), len(sequences)
    stacks = [_zeros(b, count, x) for x in shapes[many:]]
    state = [*[x.op(b) for x in carried], *stacks, *sequences, *[x.op(b) for x in around]]
    end = many + len(stacks)

    def stepped(c: Builder, number: Op, before: list[Op]) -> list[Op]:
        parts = [part_at(c, x, number) for x in before[end : end + rows]]
        values = [*before[:many], *parts, *before[end + rows :]]
        found = _results(context, step, c, number, values, known, names)
        pairs = zip(before[many:end], found[many:], strict=True)
        stacked = [with_part(c, x, y, number) for x, y in pairs]
        return [*found[:many], *stacked, *before[end:]]

    results = repeat_steps(b, count, state, stepped)
    return results[:many], results[many:end]


def _results(
    context: OpKernelContext,
    step: SteppedGraph,
    builder: Builder,
    number: Op,
    values: Sequence[Op],
    known: Mapping[str, Expression],
    names: Sequence[str],
) -> list[Op]:
    """What the graph gives in a builder for carried values, rows, and values around it."""
    given = [*step.leading(builder, number), *map(Expression, values)]
    by_name = dict(zip([*step.graph.inputs, *names], given, strict=True))
    found = context.compiler.within(builder).run(step.graph, {**known, **by_name})
    return [x.op(builder) for x in found]


def _shapes(
    context: OpKernelContext,
    step: SteppedGraph,
    carried: Sequence[Expression],
    sequences: Sequence[Op],
    known: Mapping[str, Expression],
    names: Sequence[str],
) -> list[Shape]:
    """The shapes of what a step gives, found by building it where it is thrown away."""
    trial = Builder("trial")
    shapes = [x.shape for x in carried]
    shapes += [array_shape(x.element_type, x.dimensions[1:]) for x in sequences]
    shapes += [context.scope[x].shape for x in names]
    values = [trial.parameter(i, x) for i, x in enumerate(shapes)]
    number = trial.constant(np.int64(0))
    return [x.shape for x in _results(context, step, trial, number, values, known, names)]


def _zeros(b: Builder, count: int, shape: Shape) -> Op:
    zero = b.constant(np.zeros((), DTYPES[shape.element_type]))
    return b.broadcast(zero, [count, *shape.dimensions], [])
