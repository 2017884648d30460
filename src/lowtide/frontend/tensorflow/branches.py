"""Branches of TensorFlow 1: Switch and Merge by one condition become a call of If."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph

_MERGES: Final = frozenset({"Merge", "RefMerge"})
_SWITCHES: Final = frozenset({"Switch", "RefSwitch"})


def with_branches(graph: OpGraph, functions: dict[str, OpGraph]) -> OpGraph:
    """Return a graph with calls of functions, which are added, in place of its branches.

    Inner branches come first. Raises GraphError for a Merge that is at the end of no two branches.
    """
    while True:
        merges = [x for x in graph.nodes if x.op in _MERGES]
        if not merges:
            return graph
        graph = _without_first(graph, merges, functions)


def _without_first(
    graph: OpGraph, merges: Sequence[GraphNode], functions: dict[str, OpGraph]
) -> OpGraph:
    """The graph without one condition: one before whose merges there is no other merge."""
    by_name = {x.name: x for x in graph.nodes}
    first = next((x for x in merges if not _merges_before(x, by_name)), None)
    if first is None:
        raise GraphError("a merge waits for itself", node=merges[0].name, op=merges[0].op)
    condition, _ = _sides(first, by_name)
    ready = [x for x in merges if not _merges_before(x, by_name)]
    together = [x for x in ready if _sides(x, by_name)[0] == condition]
    return _called(graph, condition, together, by_name, functions)


def _sources(node: GraphNode) -> list[str]:
    return [*[x.rpartition(":")[0] for x in node.inputs if x], *node.after]


def _before(
    names: Sequence[str], by_name: Mapping[str, GraphNode], stop: frozenset[str] = frozenset()
) -> list[GraphNode]:
    """The nodes that some come behind, themselves included, not beyond those of some ops."""
    found: dict[str, GraphNode] = {}
    waiting = list(reversed(names))
    while waiting:
        name = waiting.pop()
        if name in found or name not in by_name:
            continue
        found[name] = by_name[name]
        if by_name[name].op not in stop:
            waiting += reversed(_sources(by_name[name]))
    return list(found.values())


def _merges_before(node: GraphNode, by_name: Mapping[str, GraphNode]) -> bool:
    return any(x.op in _MERGES for x in _before(_sources(node), by_name))


def _sides(node: GraphNode, by_name: Mapping[str, GraphNode]) -> tuple[str, dict[int, int]]:
    """The condition of a merge, and which of its inputs is which side (1: the condition holds)."""
    if len(node.inputs) != 2:
        raise GraphError("a merge of two values was expected", node=node.name, op=node.op)
    reached = [_ports(x, by_name) for x in node.inputs]
    for condition, port in reached[0].items():
        other = reached[1].get(condition)
        if other is not None and other != port:
            return condition, {port: 0, other: 1}
    for number in range(2):
        for condition, port in reached[number].items():
            if condition not in reached[1 - number]:
                return condition, {port: number, 1 - port: 1 - number}
    raise GraphError("no Switch is before both of its inputs", node=node.name, op=node.op)


def _ports(value: str, by_name: Mapping[str, GraphNode]) -> dict[str, int]:
    """By which output of a Switch a value is reached, for each of the nearest conditions."""
    found: dict[str, int] = {}
    seen: set[str] = set()
    waiting = [value]
    while waiting:
        now = waiting.pop(0)
        name, _, port = now.rpartition(":")
        if now in seen or name not in by_name:
            continue
        seen.add(now)
        node = by_name[name]
        if node.op in _SWITCHES:
            found.setdefault(node.inputs[1], int(port))
        else:
            waiting += [*[x for x in node.inputs if x], *[f"{x}:0" for x in node.after]]
    return found


def _called(
    graph: OpGraph,
    condition: str,
    merges: Sequence[GraphNode],
    by_name: Mapping[str, GraphNode],
    functions: dict[str, OpGraph],
) -> OpGraph:
    switches = [x for x in graph.nodes if x.op in _SWITCHES and x.inputs[1] == condition]
    ends = {x.name for x in merges}
    needed = _before([x for y in merges for x in _sources(y)], by_name, _SWITCHES)
    inside = {x.name for x in needed} & _behind(graph, switches)
    own = {x.name for x in switches}
    constants = {x.name for x in needed if x.op == "Const"}
    held = [x for x in graph.nodes if x.name in (inside - ends - own) | constants]
    nodes = [replace(x, after=()) for x in held]
    read = [x for node in nodes for x in node.inputs] + [x for y in merges for x in y.inputs]
    known = inside | constants
    outer = list(dict.fromkeys([x for x in read if x and x.rpartition(":")[0] not in known]))
    names = {}
    for side in (1, 0):
        name = unused(f"{merges[0].name} {'then' if side else 'else'}", functions)
        names[side] = name
        functions[name] = _branch(name, side, switches, merges, nodes, outer, by_name)
    call = f"{merges[0].name} branches"
    passed = (condition, *[x.inputs[0] for x in switches], *outer)
    made = GraphNode(
        call,
        "If",
        passed,
        tuple([f"{call}:{i}" for i in range(2 * len(merges))]),
        {"then_branch": names[1], "else_branch": names[0]},
    )
    given = []
    for number, node in enumerate(merges):
        sources = tuple([f"{call}:{2 * number + i}" for i in range(len(node.outputs))])
        given.append(GraphNode(node.name, "IdentityN", sources, node.outputs))
    rest = [x for x in graph.nodes if x.name not in ends]
    return OpGraph(graph.name, graph.inputs, (*rest, made, *given), graph.outputs)


def _behind(graph: OpGraph, switches: Sequence[GraphNode]) -> set[str]:
    """The names of nodes that come behind some switches, without these; merges end it."""
    readers: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        for source in _sources(node):
            readers.setdefault(source, []).append(node)
    own = {x.name for x in switches}
    found = set(own)
    waiting = list(own)
    while waiting:
        name = waiting.pop()
        for reader in readers.get(name, ()):
            if reader.name not in found:
                found.add(reader.name)
                if reader.op not in _MERGES:
                    waiting.append(reader.name)
    return found


def _branch(
    name: str,
    side: int,
    switches: Sequence[GraphNode],
    merges: Sequence[GraphNode],
    nodes: Sequence[GraphNode],
    outer: Sequence[str],
    by_name: Mapping[str, GraphNode],
) -> OpGraph:
    """One side of a condition: the values before the merges, and which input each of them takes."""
    inner, outputs = list(nodes), []
    for node in merges:
        number = _sides(node, by_name)[1][side]
        index = f"{node.name} index"
        inner.append(
            GraphNode(index, "Const", (), (f"{index}:0",), {"value": number, "dtype": "int32"})
        )
        outputs += [node.inputs[number], f"{index}:0"]
    given = (*[f"{x.name}:{side}" for x in switches], *outer)
    return OpGraph(name, given, tuple(inner), tuple(outputs))


def unused(name: str, functions: Mapping[str, OpGraph]) -> str:
    """Return a name that no function has: the one that is given, with primes if need be."""
    while name in functions:
        name += "'"
    return name
