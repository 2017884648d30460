"""The number of steps of a Loop, where limits and conditions do not depend on arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder import Builder
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import OpGraph, free_values, needed_nodes
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_MOST_STEPS: Final = 4096
"""As many steps are computed to see when a condition no longer holds."""

_SMALL: Final = 16
"""As many elements may have values that conditions are computed from."""


def step_count(
    context: OpKernelContext, body: OpGraph, carried: Sequence[Expression]
) -> int | None:
    """Return how many steps a Loop takes, None where that is not known when it is compiled.

    What its condition is computed from is followed step by step where that depends on no argument.
    """
    limit = None
    if context.has_input(0):
        known = context.known(0)
        if known is None:
            return None
        limit = max(int(known.reshape(())), 0)
    if context.has_input(1):
        going = context.known(1)
        if going is None:
            return None
        if not going.reshape(()):
            return 0
    deciding = _deciding(context, body)
    values = [context.compiler.value_of(carried[i]) for i in deciding.carried]
    small = [x for x in values if x is not None and x.size <= _SMALL]
    if len(small) < len(values):
        return None
    return _counted(context, deciding, small, limit)


@dataclass(frozen=True, eq=False, slots=True)
class _Deciding:
    """The part of a body that decides whether there is a further step.

    It takes the step, the truth, and the `carried` values of these numbers; it gives the condition
    and these values.
    """

    graph: OpGraph
    carried: tuple[int, ...]
    reads_step: bool


def _deciding(context: OpKernelContext, body: OpGraph) -> _Deciding:
    carried: tuple[int, ...] = ()
    while True:
        outputs = [body.outputs[0], *[body.outputs[1 + i] for i in carried]]
        wanted = OpGraph(body.name, body.inputs, body.nodes, tuple(outputs))
        nodes = needed_nodes(wanted, {*body.inputs, *context.scope})
        read = {*free_values(OpGraph(body.name, (), tuple(nodes), ())), *outputs}
        found = tuple([i for i, x in enumerate(body.inputs[2:]) if x in read])
        if found == carried:
            inputs = (*body.inputs[:2], *[body.inputs[2 + i] for i in carried])
            part = OpGraph(body.name, inputs, tuple(nodes), tuple(outputs))
            return _Deciding(part, carried, body.inputs[0] in read)
        carried = tuple(sorted({*carried, *found}))


def _counted(
    context: OpKernelContext, deciding: _Deciding, values: list[Array], limit: int | None
) -> int | None:
    for step in range(_MOST_STEPS):
        if limit is not None and step >= limit:
            return limit
        after = _stepped(context, deciding, [np.array(step), np.array(True), *values])
        if after is None or any(x.size > _SMALL for x in after):
            return None
        if not after[0].reshape(()):
            return step + 1
        if not deciding.reads_step and all(map(np.array_equal, values, after[1:])):
            return limit
        values = after[1:]
    return None


def _stepped(
    context: OpKernelContext, deciding: _Deciding, values: Sequence[Array]
) -> list[Array] | None:
    """What the part gives in one step, None where that depends on arguments."""
    free = [x for x in free_values(deciding.graph) if x in context.scope]
    around = {x: context.compiler.value_of(context.scope[x]) for x in free}
    known = {x: Expression(y) for x, y in around.items() if y is not None}
    if len(known) < len(around):
        return None
    given = dict(zip(deciding.graph.inputs, map(Expression, values), strict=True))
    trial = context.compiler.within(Builder("trial"))
    found = [trial.value_of(x) for x in trial.run(deciding.graph, {**known, **given})]
    known_values = [x for x in found if x is not None]
    return known_values if len(known_values) == len(found) else None
