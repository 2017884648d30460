"""Subgraphs as graphs without state: variables come in as values, and go out as they are left.

    READ_VARIABLE v -> x      x is another name of what v holds
    ASSIGN_VARIABLE v <- y    from here on v holds y
    IF, WHILE, CALL           variables that the subgraphs touch are inputs and outputs besides

Tensors that last between calls, such as the state of an LSTM, are variables too: their operators
give what they leave in them as further outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, final

from lowtide.frontend.graphs.graph import GraphNode, OpGraph
from lowtide.frontend.tflite.model import LiteGraph, LiteModel, LiteOperator
from lowtide.frontend.tflite.tensor_lists import with_items_set
from lowtide.ir.errors import InputError
from lowtide.records import dataclass

_CALLED: Final = {
    "IF": {"then": 0, "else": 1},
    "WHILE": {"test": 0, "body": 1},
    "STABLEHLO_WHILE": {"test": 0, "body": 1},
    "CALL": {"body": 0},
    "STABLEHLO_COMPOSITE": {"body": 1},
}
"""Operators that call subgraphs with their inputs: the option in which each number stands."""

_APPLIED: Final = {
    "STABLEHLO_REDUCE": 1,
    "STABLEHLO_REDUCE_WINDOW": 5,
    "STABLEHLO_SORT": 2,
    "STABLEHLO_SCATTER": 6,
}
"""Operators that apply a subgraph to numbers, and the option in which it stands."""

_SELECTOR_INPUTS: Final = {"IF": 1}
"""How many inputs stand in front of those that the subgraphs get."""

_STATE_INPUTS: Final = {
    "SVDF": (4,),
    "RNN": (4,),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (4,),
    "BIDIRECTIONAL_SEQUENCE_RNN": (4, 8),
    "LSTM": (18, 19),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
}
"""The inputs of operators that hold state from one call to the next."""

_BASIC_LSTM: Final = 5, (1, 4)
"""How many inputs the basic kernel of LSTM has, and which ones are state."""

_DEEPEST: Final = 32


@dataclass(frozen=True, eq=False, slots=True)
class StateTensor:
    """A variable: its name, and where a tensor with its type and sizes stands."""

    name: str
    graph: int
    tensor: int


@dataclass(frozen=True, eq=False, slots=True)
class LiteStatelessGraph:
    """A subgraph as a graph whose last inputs and outputs are variables, by their names."""

    graph: OpGraph
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """A subgraph that is called: the variables that its inputs hold, and how deep calls are."""

    number: int
    handles: Mapping[int, str]
    depth: int


def value_name(graph: int, tensor: int) -> str:
    """Return the name of a tensor's value; "" for one that is left out."""
    if tensor < 0:
        return ""
    return f"tensor {tensor}" if not graph else f"subgraph {graph} tensor {tensor}"


@dataclass(eq=False, slots=True)
class _Scope:
    """What is known while a subgraph is read: names of values, handles, what variables hold."""

    call: _Call
    names: dict[int, str] = field(default_factory=dict)
    handles: dict[int, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    nodes: list[GraphNode] = field(default_factory=list)


@final
class Translation:
    """Subgraphs of a model as graphs; `variables` are all that these touch, by name."""

    def __init__(self, model: LiteModel) -> None:
        self.model = model
        self.variables: dict[str, StateTensor] = {}
        self.once: dict[int, None] = {}
        """The subgraphs that run once, before all others."""

    def graph(self, number: int) -> LiteStatelessGraph:
        """Return a subgraph; raises InputError for calls that never end and for bad handles."""
        return self._translated(_Call(number, {}, 0))

    def _translated(self, call: _Call) -> LiteStatelessGraph:
        if call.depth > _DEEPEST:
            raise self._error(call, f"subgraph {call.number} is called {_DEEPEST} levels deep")
        given = self._lite(call)
        scope = _Scope(call, handles=dict(call.handles))
        for tensor in given.tensors:
            if tensor.is_variable:
                name = f"subgraph {call.number}: {tensor.name or tensor.number}"
                self._declare(name, call.number, tensor.number)
                self._hold(scope, name)
                scope.names[tensor.number] = name
        for operator in with_items_set(given):
            self._add(scope, given, operator)
        inputs = [self._name(scope, x) for x in given.inputs if x not in call.handles]
        outputs = [self._name(scope, x) for x in given.outputs if x not in scope.handles]
        variables = tuple(scope.held)
        graph = OpGraph(
            given.name or f"subgraph {call.number}",
            (*inputs, *variables),
            tuple(scope.nodes),
            (*outputs, *scope.held.values()),
        )
        return LiteStatelessGraph(graph, variables)

    def _lite(self, call: _Call) -> LiteGraph:
        if not 0 <= call.number < len(self.model.graphs):
            raise self._error(call, f"subgraph {call.number} of {len(self.model.graphs)}")
        return self.model.graphs[call.number]

    def _add(self, scope: _Scope, given: LiteGraph, operator: LiteOperator) -> None:
        """Add what an operator does to a scope."""
        special = _SPECIAL.get(operator.name)
        if special is not None:
            special(self, scope, given, operator)
            return
        attributes: dict[str, Any] = {"operator": operator, "graph": given}
        if operator.name in _APPLIED:
            number = _option(operator, _APPLIED[operator.name])
            applied = self._translated(_Call(number, {}, scope.call.depth + 1))
            attributes["body"] = applied.graph
        inputs = [self._name(scope, x) for x in operator.inputs]
        outputs = [self._made(scope, given, x) for x in operator.outputs]
        for position in _state_inputs(operator):
            held = operator.inputs[position] if position < len(operator.inputs) else -1
            if held >= 0:
                outputs.append(self._made(scope, given, held))
        scope.nodes.append(_node(scope, operator, inputs, outputs, attributes))

    def _called(self, scope: _Scope, given: LiteGraph, operator: LiteOperator) -> None:
        """Add an operator that calls subgraphs, with the variables that these touch."""
        first = _SELECTOR_INPUTS.get(operator.name, 0)
        passed = operator.inputs[first:]
        found: dict[str, LiteStatelessGraph] = {}
        for role, option in _CALLED[operator.name].items():
            number = _option(operator, option)
            call = _Call(number, {}, scope.call.depth + 1)
            names = self._lite(call).inputs
            if len(names) != len(passed):
                text = f"subgraph {number} takes {len(names)} inputs, not {len(passed)}"
                raise self._error(scope.call, text, operator)
            pairs = zip(names, passed, strict=True)
            handles = {x: scope.handles[y] for x, y in pairs if y in scope.handles}
            found[role] = self._translated(replace(call, handles=handles))
        variables = list(dict.fromkeys([x for y in found.values() for x in y.variables]))
        for name in variables:
            self._hold(scope, name)
        attributes: dict[str, Any] = {"operator": operator, "graph": given}
        attributes |= {
            role: _widened(x, variables, gives=role != "test") for role, x in found.items()
        }
        inputs = [self._name(scope, x) for x in operator.inputs if x not in scope.handles]
        inputs += [scope.held[x] for x in variables]
        results = [x for x in operator.outputs if x not in scope.handles]
        outputs = [self._made(scope, given, x) for x in self._values(scope, operator, results)]
        outputs += [self._next(scope, x, operator) for x in variables]
        scope.nodes.append(_node(scope, operator, inputs, outputs, attributes))

    def _values(self, scope: _Scope, operator: LiteOperator, results: Sequence[int]) -> list[int]:
        """The outputs of a call that are values; handles that a loop hands on stay handles."""
        if operator.name in ("WHILE", "STABLEHLO_WHILE"):
            for before, after in zip(operator.inputs, operator.outputs, strict=False):
                if before in scope.handles:
                    scope.handles[after] = scope.handles[before]
        return [x for x in results if x not in scope.handles]

    def _handle(self, scope: _Scope, _: LiteGraph, operator: LiteOperator) -> None:
        options = operator.options
        texts = ("", "") if options is None else (options.text(0, "c"), options.text(1, "n"))
        scope.handles[operator.outputs[0]] = "/".join([x for x in texts if x]) or "variable"

    def _read(self, scope: _Scope, _: LiteGraph, operator: LiteOperator) -> None:
        name = self._variable(scope, operator)
        self._declare(name, scope.call.number, operator.outputs[0])
        self._hold(scope, name)
        scope.names[operator.outputs[0]] = scope.held[name]

    def _assign(self, scope: _Scope, _: LiteGraph, operator: LiteOperator) -> None:
        name = self._variable(scope, operator)
        if len(operator.inputs) < 2:
            raise self._error(scope.call, "it has no value to assign", operator)
        self._declare(name, scope.call.number, operator.inputs[1])
        self._hold(scope, name)
        scope.held[name] = self._name(scope, operator.inputs[1])

    def _call_once(self, scope: _Scope, _: LiteGraph, operator: LiteOperator) -> None:
        number = _option(operator, 0)
        self._lite(_Call(number, {}, 0))
        self.once[number] = None

    def _variable(self, scope: _Scope, operator: LiteOperator) -> str:
        if not operator.inputs or operator.inputs[0] not in scope.handles:
            raise self._error(scope.call, "its first input is no handle of a variable", operator)
        return scope.handles[operator.inputs[0]]

    def _declare(self, name: str, graph: int, tensor: int) -> None:
        self.variables.setdefault(name, StateTensor(name, graph, tensor))

    def _hold(self, scope: _Scope, name: str) -> None:
        scope.held.setdefault(name, name)

    def _name(self, scope: _Scope, tensor: int) -> str:
        return scope.names.get(tensor) or value_name(scope.call.number, tensor)

    def _made(self, scope: _Scope, given: LiteGraph, tensor: int) -> str:
        """The name of a value that is made; a tensor that lasts gets a new one each time."""
        if tensor < 0 or not given.tensors[tensor].is_variable:
            return value_name(scope.call.number, tensor)
        variable = f"subgraph {scope.call.number}: {given.tensors[tensor].name or tensor}"
        name = f"{variable} after {len(scope.nodes)}"
        scope.names[tensor] = scope.held[variable] = name
        return name

    def _next(self, scope: _Scope, variable: str, operator: LiteOperator) -> str:
        name = f"{variable} after {scope.call.number}:{operator.number}"
        scope.held[variable] = name
        return name

    def _error(self, call: _Call, message: str, operator: LiteOperator | None = None) -> InputError:
        where = f"model.subgraphs[{call.number}]"
        if operator is not None:
            where += f".operators[{operator.number}] ({operator.name})"
        return InputError(message, file=self.model.file, position=where)


_SPECIAL: Final = {
    "VAR_HANDLE": Translation._handle,
    "READ_VARIABLE": Translation._read,
    "ASSIGN_VARIABLE": Translation._assign,
    "CALL_ONCE": Translation._call_once,
    **dict.fromkeys(_CALLED, Translation._called),
}
"""Operators that are more than a node of a graph."""


def _option(operator: LiteOperator, number: int) -> int:
    return 0 if operator.options is None else operator.options.integer(number)


def _state_inputs(operator: LiteOperator) -> tuple[int, ...]:
    count, held = _BASIC_LSTM
    is_basic = operator.name == "LSTM" and len(operator.inputs) == count
    return held if is_basic else _STATE_INPUTS.get(operator.name, ())


def _node(
    scope: _Scope,
    operator: LiteOperator,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any],
) -> GraphNode:
    place = "" if not scope.call.number else f"subgraph {scope.call.number} "
    name = f"{place}operator {operator.number}"
    return GraphNode(name, operator.name, tuple(inputs), tuple(outputs), attributes)


def _widened(found: LiteStatelessGraph, variables: Sequence[str], *, gives: bool) -> OpGraph:
    """A subgraph that takes, and `gives`, some variables, of which it may touch a few only."""
    graph, count = found.graph, len(found.variables)
    inputs = graph.inputs[: len(graph.inputs) - count]
    outputs = graph.outputs[: len(graph.outputs) - count]
    left = dict(zip(found.variables, graph.outputs[len(outputs) :], strict=True))
    after = [left.get(x, x) for x in variables] if gives else []
    return OpGraph(graph.name, (*inputs, *variables), graph.nodes, (*outputs, *after))
