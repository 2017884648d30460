"""Graphs of named nodes as front doors hand them over, their order, and errors that name a node."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, final

from lowtide.ir.errors import LowtideError
from lowtide.records import dataclass
from lowtide.suggestions import nearest

if TYPE_CHECKING:
    from lowtide.frontend.graphs.expression import Expression
    from lowtide.ir.shape import Shape


class GraphError(LowtideError):
    """A graph cannot be compiled; `node` and `op` say at which node, "" where it is none."""

    def __init__(self, message: str, *, node: str = "", op: str = "") -> None:
        self.node = node
        self.op = op
        where = f"node {node!r} ({op}): " if node else ""
        super().__init__(f"{where}{message}")


class NotConstantError(GraphError):
    """An input has to be known when the graph is compiled, and is not; `value` is that input."""

    def __init__(self, message: str, value: Expression, *, node: str, op: str) -> None:
        self.value = value
        super().__init__(message, node=node, op=op)


@final
class UnknownConditionError(NotConstantError):
    """A condition has to be known when the graph is compiled: of its branches only one can be."""


@final
class NoTensorFormError(GraphError):
    """A node whose result has no shape that is known when the graph is compiled."""


@dataclass(frozen=True, eq=False, slots=True)
class GraphNode:
    """One operation: the names of the values that it reads, and of those that it makes.

    An input "" is an optional one that is left out. `after` are names of nodes that come first.
    `version` is that of the op's set, 0 for the newest; `source` the line it was written in.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    version: int = 0
    source: tuple[str, int] = ("", 0)


@dataclass(frozen=True, eq=False, slots=True)
class OpGraph:
    """Nodes in any order, the names of the values that come in, and of those that go out.

    `declared` are the types of the outputs as far as a file gives them, 0 for sizes that it leaves
    open, and None for an output whose type or number of dimensions it does not give.
    """

    name: str
    inputs: tuple[str, ...]
    nodes: tuple[GraphNode, ...]
    outputs: tuple[str, ...]
    declared: tuple[Shape | None, ...] = ()


def producers(nodes: Iterable[GraphNode]) -> dict[str, GraphNode]:
    """Return the node that makes each value; raises GraphError where there are two."""
    found: dict[str, GraphNode] = {}
    names: set[str] = set()
    for node in nodes:
        if node.name in names:
            raise GraphError("there is another node of this name", node=node.name, op=node.op)
        names.add(node.name)
        for output in node.outputs:
            if output and found.setdefault(output, node) is not node:
                first = found[output].name
                raise GraphError(
                    f"{output!r} is already made by node {first!r}", node=node.name, op=node.op
                )
    return found


def execution_order(graph: OpGraph, known: Iterable[str]) -> list[GraphNode]:
    """Return the nodes that the outputs need, each after those that it reads from.

    `known` are the values that are there from the start, which no node has to make. Of several
    orders it is the one nearest to that of `graph.nodes`. Raises GraphError, with the node, for an
    input that nothing makes, and for a cycle, with the nodes on it.
    """
    made = producers(graph.nodes)
    given = set(known)
    by_name = {node.name: node for node in graph.nodes}
    readers: dict[str, list[GraphNode]] = {}
    missing: dict[str, int] = {}
    for node in _needed(graph, made, given, by_name):
        sources = _sources(node, made, given, by_name)
        missing[node.name] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(node)
    needed = [node for node in graph.nodes if node.name in missing]
    ready = deque([node for node in needed if not missing[node.name]])
    order: list[GraphNode] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for reader in readers.get(node.name, ()):
            missing[reader.name] -= 1
            if not missing[reader.name]:
                ready.append(reader)
    if len(order) < len(needed):
        done = {node.name for node in order}
        rest = [node for node in needed if node.name not in done]
        raise _cycle(rest, made, given, by_name)
    return order


def needed_nodes(graph: OpGraph, known: Iterable[str]) -> list[GraphNode]:
    """Return the nodes that the outputs need, as written; raises as `execution_order`."""
    by_name = {node.name: node for node in graph.nodes}
    found = {x.name for x in _needed(graph, producers(graph.nodes), set(known), by_name)}
    return [x for x in graph.nodes if x.name in found]


def _sources(
    node: GraphNode,
    made: Mapping[str, GraphNode],
    given: set[str],
    by_name: Mapping[str, GraphNode],
) -> list[str]:
    """The names of the nodes that come before a node, each once."""
    found: dict[str, None] = {}
    for value in node.inputs:
        if not value or value in given:
            continue
        if value not in made:
            message = f"its input {value!r} is made by no node{nearest(value, [*given, *made])}"
            raise GraphError(message, node=node.name, op=node.op)
        found[made[value].name] = None
    for value in _captured(node):
        if value not in given and value in made:
            found[made[value].name] = None
    for name in node.after:
        if name not in by_name:
            message = f"it waits for {name!r}, which is no node{nearest(name, by_name)}"
            raise GraphError(message, node=node.name, op=node.op)
        outputs = by_name[name].outputs
        if not outputs or not given.issuperset(outputs):
            found[name] = None
    return list(found)


def _captured(node: GraphNode) -> list[str]:
    """The values that graphs inside of a node read from around it."""
    graphs = [x for x in node.attributes.values() if isinstance(x, OpGraph)]
    return [value for graph in graphs for value in free_values(graph)]


def _needed(
    graph: OpGraph, made: Mapping[str, GraphNode], given: set[str], by_name: Mapping[str, GraphNode]
) -> list[GraphNode]:
    waiting: list[GraphNode] = []
    for output in graph.outputs:
        if output in given:
            continue
        if output not in made:
            hint = nearest(output, [*given, *made])
            raise GraphError(f"no node of graph {graph.name!r} makes its output {output!r}{hint}")
        waiting.append(made[output])
    found: dict[str, GraphNode] = {}
    while waiting:
        node = waiting.pop()
        if node.name not in found:
            found[node.name] = node
            waiting += [by_name[name] for name in _sources(node, made, given, by_name)]
    return list(found.values())


def _cycle(
    rest: list[GraphNode],
    made: Mapping[str, GraphNode],
    given: set[str],
    by_name: Mapping[str, GraphNode],
) -> GraphError:
    """Walk back from a node that cannot run until one comes twice."""
    stuck = {node.name for node in rest}
    path = [rest[0]]
    seen = {rest[0].name: 0}
    while True:
        before = [x for x in _sources(path[-1], made, given, by_name) if x in stuck]
        if before[0] in seen:
            names = [node.name for node in path[seen[before[0]] :]]
            shown = " <- ".join([*names, names[0]])
            node = path[seen[before[0]]]
            return GraphError(f"the graph has a cycle: {shown}", node=node.name, op=node.op)
        seen[before[0]] = len(path)
        path.append(by_name[before[0]])


def free_values(graph: OpGraph) -> list[str]:
    """Return the values that a graph reads and does not make: those of the graphs around it."""
    found: dict[str, None] = {}
    waiting = [(graph, frozenset[str]())]
    while waiting:
        inner, around = waiting.pop()
        local = around | {*inner.inputs, *[x for node in inner.nodes for x in node.outputs]}
        read = [*[x for node in inner.nodes for x in node.inputs], *inner.outputs]
        found.update(dict.fromkeys([x for x in read if x and x not in local]))
        nested = [x for node in inner.nodes for x in node.attributes.values()]
        waiting += [(x, local) for x in nested if isinstance(x, OpGraph)]
    return list(found)
