"""The sizes of lists that a loop fills, found before the loop is built.

A trial of the body tells the sizes of entries that it stores. How many are added follows from the
number of steps, where the condition depends on constants: the part of the body that the condition
reads is evaluated step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lowtide.builder import Builder
from lowtide.frontend.graphs.compiler import GraphCompiler
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import GraphNode, OpGraph, needed_nodes
from lowtide.frontend.tensorflow.open_lists import OpenList
from lowtide.records import dataclass

_MOST_STEPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """How many steps a loop has, and the greatest value of each of some numbers in them."""

    steps: int
    greatest: Mapping[str, int]


def with_lists(
    context: OpKernelContext, condition: OpGraph, body: OpGraph, state: Sequence[Expression]
) -> list[Expression]:
    """Return the state of a loop with values for lists that are open.

    Raises GraphError for a list of which no step of the loop says enough.
    """
    found = list(state)
    while any(isinstance(x, OpenList) for x in found):
        after = _trial(context, body, found)
        closed = [_closed(context, (condition, body), found, after, i) for i in range(len(found))]
        if all(x is y for x, y in zip(closed, found, strict=True)):
            first = next(x for x in found if isinstance(x, OpenList))
            first.op(context.builder)
        found = closed
    return found


def _trial(
    context: OpKernelContext, body: OpGraph, state: Sequence[Expression]
) -> list[Expression]:
    """The state after one step, built into a computation that is thrown away."""
    child = context.builder.sub_builder(body.name)
    values: dict[str, Expression] = {}
    for name, value in zip(body.inputs, state, strict=True):
        if isinstance(value, OpenList):
            values[name] = value
        else:
            values[name] = Expression(child.parameter(len(values), value.shape))
    return context.compiler.within(child).run(body, values)


def _closed(
    context: OpKernelContext,
    graphs: tuple[OpGraph, OpGraph],
    before: Sequence[Expression],
    after: Sequence[Expression],
    number: int,
) -> Expression:
    """A list with what one step told of it; other values as they are."""
    given, found = before[number], after[number]
    if not isinstance(given, OpenList) or given.added or given.by_place:
        return given
    b = context.builder
    if not isinstance(found, OpenList):
        if given.grows and given.room is None:
            # A loop within the body closed it, with room for one step of this loop only.
            return given
        shape = found.shape.tuple_shapes[0] if found.shape.is_tuple else found.shape
        room = shape.dimensions[0] if given.room is None else given.room
        return Expression(given.filled(b, shape.dimensions[1:], room))
    if found.sizes is None or not (found.added or found.by_place):
        return given
    place = _stored_at(graphs[1], number) if found.by_place else ""
    counts = loop_counts(context.compiler, b, graphs, before, [place] if place else [])
    if counts is None or (found.by_place and not place):
        return given
    room = counts.greatest[place] + 1 if place else counts.steps * found.added
    return Expression(given.filled(b, found.sizes, max(room, 1)))


def _stored_at(body: OpGraph, number: int) -> str:
    """The value that says where an entry of a list is stored; "" where there are several."""
    made = {y: x for x in body.nodes for y in x.outputs}
    value, found = body.outputs[number], []
    while value in made and value not in body.inputs:
        node = made[value]
        if node.op == "TensorListSetItem":
            found += [node.inputs[1]] if _resizes(node) else []
        elif node.op not in ("Identity", "TensorListResize"):
            return ""
        value = node.inputs[0]
    return found[0] if len(found) == 1 and value == body.inputs[number] else ""


def _resizes(node: GraphNode) -> bool:
    return flag(node.attributes.get("resize_if_index_out_of_bounds", False))


def loop_counts(
    compiler: GraphCompiler,
    b: Builder,
    graphs: tuple[OpGraph, OpGraph],
    state: Sequence[Expression],
    watched: Sequence[str],
) -> LoopCounts | None:
    """Return the counts of a loop, condition and body, from a state.

    None where these depend on arguments, or the loop has more than 10,000 steps.
    """
    condition, body = graphs
    places = _read_by(condition, body, watched)
    values: dict[int, Any] = {i: compiler.value_of(state[i]) for i in places if _is_value(state[i])}
    greatest = dict.fromkeys(watched, -1)
    for steps in range(_MOST_STEPS):
        if any(values.get(i) is None for i in places):
            return None
        (test,) = _evaluated(compiler, b, condition, values, condition.outputs)
        if test is None:
            return None
        if not test.all():
            return LoopCounts(steps, greatest)
        outputs = [*watched, *[body.outputs[i] for i in places]]
        found = _evaluated(compiler, b, body, values, outputs)
        for name, value in zip(watched, found, strict=False):
            if value is None:
                return None
            greatest[name] = max(greatest[name], int(value.max()))
        values = dict(zip(places, found[len(watched) :], strict=True))
    return None


def _is_value(x: Expression) -> bool:
    return not isinstance(x, OpenList)


def _read_by(condition: OpGraph, body: OpGraph, watched: Sequence[str]) -> list[int]:
    """The numbers of the state on which the condition and some values of the body depend."""
    found = _inputs_of(condition, condition.outputs) | _inputs_of(body, watched)
    while True:
        more = found | _inputs_of(body, [body.outputs[i] for i in found])
        if more == found:
            return sorted(found)
        found = more


def _inputs_of(graph: OpGraph, outputs: Sequence[str]) -> set[int]:
    part = OpGraph(graph.name, graph.inputs, graph.nodes, tuple(outputs))
    nodes = needed_nodes(part, graph.inputs)
    read = {x for node in nodes for x in node.inputs} | set(outputs)
    return {i for i, x in enumerate(graph.inputs) if x in read}


def _evaluated(
    compiler: GraphCompiler,
    b: Builder,
    graph: OpGraph,
    values: Mapping[int, Any],
    outputs: Sequence[str],
) -> list[Any]:
    """The values of some outputs for constant inputs by number; None for those that have none."""
    known = {graph.inputs[i]: Expression(x) for i, x in values.items()}
    child = compiler.within(b.sub_builder(graph.name))
    part = OpGraph(graph.name, graph.inputs, graph.nodes, tuple(outputs))
    return [child.value_of(x) for x in child.run(part, known)]
