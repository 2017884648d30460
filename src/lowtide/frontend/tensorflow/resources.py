"""Graphs without resources: variables come in as values, and go out as they are left.

    ReadVariableOp v        another name of what v holds
    AssignVariableOp v, y   from here on v holds y
    updates of v            a node that gives what v holds after it
    calls of functions      a copy of the function for these variables, which it takes and gives

Nodes are taken in an order that their inputs and control inputs allow, so that reads come before or
behind updates as the graph says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, final

from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.frontend.tensorflow.random import STATEFUL, counted
from lowtide.records import dataclass

TABLES: Final = frozenset({"HashTable", "HashTableV2", "MutableHashTableV2"})
HANDLES: Final = frozenset({"VarHandleOp"}) | TABLES
FIND: Final = "LookupTableFindV2"
_READS: Final = frozenset({"ReadVariableOp", "_ReadVariablesOp"})
_ALIASES: Final = frozenset({"Identity", "EnsureShape", "StopGradient"})
_NOTHING: Final = frozenset({"NoOp", "Assert", "VarIsInitializedOp"})
_ASSIGN: Final = "AssignVariableOp"
_DRAWN: Final = "RngReadAndSkip"
_LOOKS: Final = frozenset({"ResourceGather", "VariableShape"})

UPDATES: Final[Mapping[str, int]] = {
    "AssignAddVariableOp": 1,
    "AssignSubVariableOp": 1,
    "ResourceApplyGradientDescent": 1,
    "ResourceApplyMomentum": 2,
    "ResourceApplyKerasMomentum": 2,
    "ResourceApplyAdadelta": 3,
    "ResourceApplyAdagrad": 2,
    "ResourceApplyAdagradV2": 2,
    "ResourceApplyAdaMax": 3,
    "ResourceApplyAdam": 3,
    "ResourceApplyAddSign": 2,
    "ResourceApplyCenteredRMSProp": 4,
    "ResourceApplyFtrl": 3,
    "ResourceApplyFtrlV2": 3,
    "ResourceApplyPowerSign": 2,
    "ResourceApplyProximalAdagrad": 2,
    "ResourceApplyProximalGradientDescent": 1,
    "ResourceApplyRMSProp": 3,
    "ResourceScatterAdd": 1,
    "ResourceScatterUpdate": 1,
}
"""Ops that change variables, and how many there are: their first inputs. Kernels of the same names
give what these hold afterwards."""

_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), ("f",)),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
    **dict.fromkeys(("While", "StatelessWhile"), ("cond", "body")),
    **dict.fromkeys(("Case", "StatelessCase"), ("branches",)),
}
"""Ops that call functions, and the attributes that name these."""

_SELECTED: Final = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Calls whose first input is not for the functions."""

_DEEPEST: Final = 64


@dataclass(frozen=True, eq=False, slots=True)
class StatelessFunction:
    """A graph that takes and gives variables, behind its own inputs and outputs.

    `touched` are these variables, `assigned` those that may be left otherwise. `handles` are the
    outputs of the graph as it was that are handles, by number.
    """

    graph: OpGraph
    touched: tuple[str, ...]
    assigned: frozenset[str]
    handles: Mapping[int, str]


def variable_value(name: str) -> str:
    """Return the name of the value that a variable has before a graph runs."""
    return f"variable {name}:0"


def table_values(name: str) -> tuple[str, str]:
    """Return the names of the keys and of the values that a table holds."""
    return f"keys of {name}", f"values of {name}"


@dataclass(eq=False, slots=True)
class _Scope:
    """What is known while a graph is read: other names of values, handles, what variables hold."""

    depth: int
    graph: str
    names: dict[str, str] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    nodes: list[GraphNode] = field(default_factory=list)

    def value(self, name: str) -> str:
        """The value that a name stands for."""
        return self.names.get(name, name)

    def hold(self, variable: str) -> str:
        """What a variable holds here."""
        return self.held.setdefault(variable, variable_value(variable))


@final
class Stateless:
    """Graphs and functions without resources; `library` grows as functions are called."""

    def __init__(self, library: Mapping[str, OpGraph]) -> None:
        self._given = library
        self.library: dict[str, OpGraph] = dict(library)
        self.refused: list[GraphNode] = []
        """Nodes that read variables in a way that is not known."""
        self.counts: set[str] = set()
        """Variables that no checkpoint has: how many counters random ops have used."""
        self._made: dict[tuple[str, tuple[tuple[int, str], ...]], StatelessFunction] = {}

    def graph(
        self, graph: OpGraph, handles: Mapping[int, str] | None = None, depth: int = 0
    ) -> StatelessFunction:
        """Return a graph whose inputs of some numbers are handles of variables.

        Raises GraphError, which names the node, for calls that never end and for what is no handle.
        """
        if depth > _DEEPEST:
            raise GraphError(f"functions call each other over {_DEEPEST} levels: {graph.name!r}")
        scope = _Scope(depth, graph.name)
        for number, variable in (handles or {}).items():
            scope.handles[graph.inputs[number]] = variable
        for node in _in_order(graph):
            self._add(scope, node)
        given = [x for i, x in enumerate(graph.inputs) if i not in (handles or {})]
        results = {i: scope.handles[x] for i, x in enumerate(graph.outputs) if x in scope.handles}
        kept = [scope.value(x) for i, x in enumerate(graph.outputs) if i not in results]
        touched = tuple(scope.held)
        found = OpGraph(
            graph.name,
            (*given, *map(variable_value, touched)),
            tuple(scope.nodes),
            (*kept, *scope.held.values()),
        )
        return StatelessFunction(found, touched, frozenset(scope.assigned), results)

    def _add(self, scope: _Scope, node: GraphNode) -> None:
        """Add what a node does to a scope."""
        op, outputs = node.op, node.outputs
        if op in HANDLES:
            scope.handles[outputs[0]] = shared_name(node)
        elif op in _NOTHING:
            return
        elif op in _ALIASES and node.inputs[0] in scope.handles:
            scope.handles[outputs[0]] = scope.handles[node.inputs[0]]
        elif op in _READS:
            scope.names[outputs[0]] = scope.hold(self._variable(scope, node, 0))
        elif op == _ASSIGN:
            variable = self._variable(scope, node, 0)
            scope.hold(variable)
            scope.held[variable] = scope.value(node.inputs[1])
            scope.assigned.add(variable)
        elif op == FIND:
            names = table_values(self._variable(scope, node, 0))
            inputs = (*map(scope.hold, names), *map(scope.value, node.inputs[1:]))
            scope.nodes.append(replace(node, inputs=inputs, after=()))
        elif op in _LOOKS:
            held = scope.hold(self._variable(scope, node, 0))
            inputs = (held, *[scope.value(x) for x in node.inputs[1:]])
            scope.nodes.append(replace(node, inputs=inputs, after=()))
        elif op in UPDATES:
            self._update(scope, node)
        elif op == _DRAWN:
            self._draw(scope, node, self._variable(scope, node, 0), node.inputs[1:])
        elif op in STATEFUL:
            variable = f"count of {scope.graph}/{node.name}"
            self.counts.add(variable)
            self._draw(scope, replace(node, op=counted(op)), variable, node.inputs)
        elif op in _CALLS:
            self._call(scope, node)
        else:
            if any(x in scope.handles for x in node.inputs):
                self.refused.append(node)
            inputs = tuple([scope.value(x) for x in node.inputs])
            scope.nodes.append(replace(node, inputs=inputs, after=()))

    def _variable(self, scope: _Scope, node: GraphNode, number: int) -> str:
        if number >= len(node.inputs) or node.inputs[number] not in scope.handles:
            text = f"input {number} is no handle of a variable"
            raise GraphError(text, node=node.name, op=node.op)
        return scope.handles[node.inputs[number]]

    def _update(self, scope: _Scope, node: GraphNode) -> None:
        count = UPDATES[node.op]
        variables = [self._variable(scope, node, i) for i in range(count)]
        inputs = [*[scope.hold(x) for x in variables], *map(scope.value, node.inputs[count:])]
        outputs = tuple([f"{node.name}:{i}" for i in range(count)])
        scope.nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs, after=()))
        for variable, output in zip(variables, outputs, strict=True):
            scope.held[variable] = output
            scope.assigned.add(variable)

    def _draw(self, scope: _Scope, node: GraphNode, variable: str, given: Sequence[str]) -> None:
        """Add a node that gives a value of a variable, and what this holds afterwards."""
        inputs = (scope.hold(variable), *map(scope.value, given))
        outputs = (f"{node.name}:0", f"{node.name}:1")
        scope.nodes.append(replace(node, inputs=inputs, outputs=outputs, after=()))
        scope.held[variable] = outputs[1]
        scope.assigned.add(variable)

    def _call(self, scope: _Scope, node: GraphNode) -> None:
        """Add a call; its functions are copied for the variables that they get or have."""
        first = int(node.op in _SELECTED)
        passed = node.inputs[first:]
        handles = {i: scope.handles[x] for i, x in enumerate(passed) if x in scope.handles}
        names = _called(node)
        found = {x: self._function(x, handles, node, scope.depth) for x in names}
        touched = list(dict.fromkeys([x for y in found.values() for x in y.touched]))
        assigned = [x for x in touched if any(x in y.assigned for y in found.values())]
        renamed = {x: self._widened(x, y, touched, node) for x, y in found.items()}
        inputs = [scope.value(x) for x in node.inputs if x not in scope.handles]
        inputs += [scope.hold(x) for x in touched]
        like = found[names[-1]]
        count = len(like.graph.outputs) - len(like.touched)
        outputs = [f"{node.name}:{i}" for i in range(count + len(touched))]
        self._name_outputs(scope, node, like, outputs)
        for variable, output in zip(touched, outputs[count:], strict=True):
            if variable in assigned:
                scope.held[variable] = output
                scope.assigned.add(variable)
        attributes = {x: _renamed(y, renamed) for x, y in node.attributes.items()}
        scope.nodes.append(
            replace(
                node, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes, after=()
            )
        )

    def _name_outputs(
        self, scope: _Scope, node: GraphNode, like: StatelessFunction, outputs: Sequence[str]
    ) -> None:
        """Let the outputs of a call have the names of what is left of them without handles."""
        place = 0
        for number in range(len(like.handles) + len(outputs)):
            name = f"{node.name}:{number}"
            if number in like.handles:
                scope.handles[name] = like.handles[number]
            elif place < len(outputs):
                scope.names[name] = outputs[place]
                place += 1

    def _function(
        self, name: str, handles: Mapping[int, str], node: GraphNode, depth: int
    ) -> StatelessFunction:
        if name not in self._given:
            return StatelessFunction(OpGraph(name, (), (), ()), (), frozenset(), {})
        key = name, tuple(sorted(handles.items()))
        if key not in self._made:
            given = self._given[name]
            if any(x >= len(given.inputs) for x in handles):
                text = f"function {name!r} takes {len(given.inputs)} arguments"
                raise GraphError(text, node=node.name, op=node.op)
            self._made[key] = self.graph(given, handles, depth + 1)
        return self._made[key]

    def _widened(
        self, name: str, found: StatelessFunction, touched: Sequence[str], node: GraphNode
    ) -> str:
        """The name of a function that takes and gives some variables; conditions only take them."""
        if name not in self._given:
            return name
        graph, count = found.graph, len(found.touched)
        inputs = graph.inputs[: len(graph.inputs) - count]
        outputs = graph.outputs[: len(graph.outputs) - count]
        left = dict(zip(found.touched, graph.outputs[len(outputs) :], strict=True))
        is_test = node.op in ("While", "StatelessWhile") and node.attributes.get("cond") == name
        after = [] if is_test else [left.get(x, variable_value(x)) for x in touched]
        made = f"{name} in {node.name}"
        while made in self.library:
            made += "'"
        self.library[made] = OpGraph(
            made, (*inputs, *map(variable_value, touched)), graph.nodes, (*outputs, *after)
        )
        return made


def shared_name(node: GraphNode) -> str:
    """Return the name under which a handle's variable is shared, else that of the node."""
    found = node.attributes.get("shared_name") or b""
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return text or node.name


def _called(node: GraphNode) -> list[str]:
    found: list[str] = []
    for name in _CALLS[node.op]:
        value = node.attributes.get(name)
        found += value if isinstance(value, list) else [str(value)]
    return found


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [names.get(x, x) if isinstance(x, str) else x for x in value]
    return names.get(value, value) if isinstance(value, str) else value


def _in_order(graph: OpGraph) -> list[GraphNode]:
    """All nodes, each behind those that it reads from or waits for; those first written come first.

    Raises GraphError for a cycle.
    """
    by_name = {x.name: x for x in graph.nodes}
    sources: dict[str, set[str]] = {}
    readers: dict[str, list[str]] = {}
    for node in graph.nodes:
        before = {x.rpartition(":")[0] for x in node.inputs if x} | set(node.after)
        sources[node.name] = {x for x in before if x in by_name and x != node.name}
        for source in sources[node.name]:
            readers.setdefault(source, []).append(node.name)
    ready = deque([x.name for x in graph.nodes if not sources[x.name]])
    order: list[GraphNode] = []
    while ready:
        name = ready.popleft()
        order.append(by_name[name])
        for reader in readers.get(name, ()):
            sources[reader].discard(name)
            if not sources[reader]:
                ready.append(reader)
    if len(order) < len(by_name):
        stuck = next(x for x in graph.nodes if sources[x.name])
        raise GraphError("it waits for itself", node=stuck.name, op=stuck.op)
    return order
