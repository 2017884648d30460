"""Control flow of TensorFlow 1 as calls of functions: loops first, the innermost before others.

    Enter, Merge, Switch, NextIteration, Exit, LoopCond     one While, its condition and body
    Switch, Merge by the same condition                     one If with two branches

Source: Yu et al. 2018, Dynamic control flow in large-scale machine learning, which has the rules by
which such graphs are built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.frontend.graphs.context import text
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.frontend.tensorflow.branches import unused, with_branches
from lowtide.records import dataclass

ENTERS: Final = frozenset({"Enter", "RefEnter"})
MERGES: Final = frozenset({"Merge", "RefMerge"})
_SWITCHES: Final = frozenset({"Switch", "RefSwitch"})
_EXITS: Final = frozenset({"Exit", "RefExit"})
_NEXT: Final = frozenset({"NextIteration", "RefNextIteration"})
_TEST: Final = "LoopCond"
_PARTS: Final = ENTERS | MERGES | _SWITCHES | _EXITS | _NEXT | {_TEST}


@dataclass(frozen=True, eq=False, slots=True)
class FunctionalGraph:
    """A graph without frames, and the functions that it calls besides those that it had."""

    graph: OpGraph
    functions: Mapping[str, OpGraph]


@dataclass(frozen=True, eq=False, slots=True)
class _Variable:
    """One value of a loop: the nodes that it goes through."""

    enter: GraphNode
    merge: GraphNode
    switch: GraphNode
    following: GraphNode
    exits: tuple[GraphNode, ...]


def functional(graph: OpGraph) -> FunctionalGraph:
    """Return a graph whose loops and branches are calls of functions.

    Raises GraphError, which names the node, for frames that no loop has.
    """
    functions: dict[str, OpGraph] = {}
    if not any(x.op in _PARTS for x in graph.nodes):
        return FunctionalGraph(graph, functions)
    while any(x.op in ENTERS for x in graph.nodes):
        graph = _without_innermost(graph, functions)
    graph = with_branches(graph, functions)
    for name in list(functions):
        functions[name] = with_branches(functions[name], functions)
    names = {x.name for x in graph.nodes if x.op not in _PARTS}
    nodes = [
        replace(x, after=() if x.op == "Const" else tuple([y for y in x.after if y in names]))
        for x in graph.nodes
    ]
    return FunctionalGraph(replace(graph, nodes=tuple(nodes)), functions)


def _frame_of(node: GraphNode) -> str:
    return text(node.attributes.get("frame_name") or b"")


def _without_innermost(graph: OpGraph, functions: dict[str, OpGraph]) -> OpGraph:
    """The graph with one call in place of a loop that has no other one inside."""
    by_frame: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        if node.op in ENTERS:
            by_frame.setdefault(_frame_of(node), []).append(node)
    readers = _readers(graph)
    for name, enters in by_frame.items():
        inside = _inside(enters, readers)
        if not any(x.op in ENTERS and _frame_of(x) != name for x in inside.values()):
            return _called(graph, name, enters, inside, functions)
    node = next(x for x in graph.nodes if x.op in ENTERS)
    raise GraphError(
        "its frame and another one are inside of each other", node=node.name, op=node.op
    )


def _readers(graph: OpGraph) -> dict[str, list[GraphNode]]:
    found: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        for source in {x.rpartition(":")[0] for x in node.inputs} | set(node.after):
            found.setdefault(source, []).append(node)
    return found


def _inside(
    enters: Sequence[GraphNode], readers: Mapping[str, list[GraphNode]]
) -> dict[str, GraphNode]:
    """The nodes of a frame, up to its exits, which are among them."""
    found = {x.name: x for x in enters}
    waiting = list(enters)
    while waiting:
        node = waiting.pop()
        if node.op in _EXITS:
            continue
        for reader in readers.get(node.name, ()):
            if reader.name not in found:
                found[reader.name] = reader
                waiting.append(reader)
    return found


def _called(
    graph: OpGraph,
    frame: str,
    enters: Sequence[GraphNode],
    inside: Mapping[str, GraphNode],
    functions: dict[str, OpGraph],
) -> OpGraph:
    """The graph with a call of While in place of a frame."""
    tests = [x for x in inside.values() if x.op == _TEST]
    if len(tests) != 1:
        raise GraphError(f"frame {frame!r} has {len(tests)} nodes LoopCond, expected 1")
    variables = _variables(enters, inside, tests[0])
    merged = {x.enter.name for x in variables}
    fixed = [x for x in enters if x.name not in merged]
    inner = [x for x in inside.values() if x.op not in _PARTS or x.op in _SWITCHES | MERGES]
    cut = {x.merge.name for x in variables} | {x.switch.name for x in variables}
    constants = [x for x in graph.nodes if x.op == "Const" and x.name not in inside]
    nodes = [replace(x, after=()) for x in [*inner, *constants] if x.name not in cut]
    names = {f"{x.merge.name}:0": f"{x.switch.name}:1" for x in variables}
    steps = [_renamed(x, names) for x in nodes]
    kept = tuple([f"{x.name}:0" for x in fixed])
    test, body = [unused(f"{frame} {kind}", functions) for kind in ("condition", "body")]
    functions[test] = OpGraph(
        test,
        (*[f"{x.merge.name}:0" for x in variables], *kept),
        tuple(nodes),
        (tests[0].inputs[0],),
    )
    functions[body] = OpGraph(
        body,
        (*[f"{x.switch.name}:1" for x in variables], *kept),
        tuple(steps),
        (*[names.get(x.following.inputs[0], x.following.inputs[0]) for x in variables], *kept),
    )
    name = f"{frame} loop"
    call = GraphNode(
        name,
        "While",
        (*[x.enter.inputs[0] for x in variables], *[x.inputs[0] for x in fixed]),
        tuple([f"{name}:{i}" for i in range(len(variables) + len(fixed))]),
        {"cond": test, "body": body},
        tuple(sorted({x for y in enters for x in y.after})),
    )
    exits = [
        GraphNode(x.name, "Identity", (f"{name}:{i}",), x.outputs)
        for i, variable in enumerate(variables)
        for x in variable.exits
    ]
    rest = [x for x in graph.nodes if x.name not in inside]
    return OpGraph(graph.name, graph.inputs, (*rest, call, *exits), graph.outputs)


def _variables(
    enters: Sequence[GraphNode], inside: Mapping[str, GraphNode], test: GraphNode
) -> list[_Variable]:
    by_value = {f"{x.name}:0": x for x in enters}
    switches = {
        x.inputs[0]: x
        for x in inside.values()
        if x.op in _SWITCHES and x.inputs[1] == f"{test.name}:0"
    }
    exits: dict[str, list[GraphNode]] = {}
    for node in inside.values():
        if node.op in _EXITS:
            exits.setdefault(node.inputs[0], []).append(node)
    found = []
    for node in inside.values():
        sources = [x for x in node.inputs if x in by_value] if node.op in MERGES else []
        if not sources:
            continue
        behind = [inside.get(x.rpartition(":")[0]) for x in node.inputs if x not in by_value]
        following, switch = (behind or [None])[0], switches.get(f"{node.name}:0")
        if following is None or following.op not in _NEXT or switch is None:
            raise GraphError(
                "a value of a loop goes on by NextIteration and Switch", node=node.name, op=node.op
            )
        left = tuple(exits.get(f"{switch.name}:0", ()))
        found.append(_Variable(by_value[sources[0]], node, switch, following, left))
    return found


def _renamed(node: GraphNode, names: Mapping[str, str]) -> GraphNode:
    if not any(x in names for x in node.inputs):
        return node
    return replace(node, inputs=tuple([names.get(x, x) for x in node.inputs]))
