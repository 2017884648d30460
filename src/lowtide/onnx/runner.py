"""Runs of a graph: compiled stretches, and between them the nodes that the host computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias, final

import numpy as np

from lowtide.frontend.graphs.errors import GraphError
from lowtide.frontend.graphs.graph import GraphNode, OpGraph, execution_order, free_values
from lowtide.frontend.graphs.registry import op_names
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.stretch import MoreConstantsError, Stretch, make_stretch, reads_of
from lowtide.ir import Module, Shape, array_shape
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import ELEMENT_TYPES, Array
from lowtide.onnx.host.registry import NodeCall, host_kernels
from lowtide.onnx.values import Value, is_tensor
from lowtide.records import dataclass

Program: TypeAlias = Callable[..., Any]
Compile: TypeAlias = Callable[[Module], Program]

_SMALL_BYTES: Final = 1 << 12
"""Initializers of more bytes are parameters of modules, smaller ones constants."""


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """A compiled stretch, and where the run is after it."""

    stretch: Stretch
    program: Program | None
    following: _Place


@dataclass(eq=False, slots=True)
class _Place:
    """A place in runs: the nodes that are left, and what was compiled there.

    `fixed` are the values that are constants of what is compiled here.
    """

    nodes: tuple[GraphNode, ...]
    reads: tuple[str, ...]
    fixed: set[str] = field(default_factory=set)
    steps: dict[tuple[Any, ...], _Step] = field(default_factory=dict)
    after_host: dict[tuple[str, ...], _Place] = field(default_factory=dict)


def _place(nodes: Sequence[GraphNode]) -> _Place:
    reads = dict.fromkeys([x for node in nodes for x in reads_of(node)])
    return _Place(tuple(nodes), tuple(reads))


@final
class GraphRunner:
    """Runs one graph.

    What it compiles is kept by the shapes of values, and by those values that have to be known.
    `constants` are values that are the same in all runs.
    """

    def __init__(
        self, graph: OpGraph, compile_: Compile, constants: Mapping[str, Array] | None = None
    ) -> None:
        self._graph = graph
        self._compile = compile_
        self._constants = dict(constants or {})
        self._inner: dict[tuple[str, str], GraphRunner] = {}
        self._start: dict[tuple[str, ...], _Place] = {}
        self._host = host_kernels()
        native = set(op_names(DOMAIN))
        self._on_host = {x.name for x in graph.nodes if x.op in self._host and x.op not in native}

    def run(self, given: Mapping[str, Value]) -> list[Value]:
        """Return the outputs of the graph; raises LowtideError, which names the node."""
        values: dict[str, Value] = {**self._constants, **given}
        place = self._first(tuple(given))
        while True:
            place = self._run_host(place, values)
            if not place.nodes:
                return [self._output(x, values) for x in self._graph.outputs]
            step = self._step(place, values, given)
            self._run_step(step, values)
            place = step.following
            kept = {*place.reads, *self._graph.outputs}
            values = {x: y for x, y in values.items() if x in kept}

    def _first(self, names: tuple[str, ...]) -> _Place:
        if names not in self._start:
            order = execution_order(self._graph, {*names, *self._constants})
            self._start[names] = _place(order)
        return self._start[names]

    def _output(self, name: str, values: Mapping[str, Value]) -> Value:
        if name not in values:
            raise GraphError(f"no node of graph {self._graph.name!r} makes its output {name!r}")
        return values[name]

    # -- nodes on the host -------------------------------------------------------------------------

    def _run_host(self, place: _Place, values: dict[str, Value]) -> _Place:
        done: list[str] = []
        for node in place.nodes:
            if self._is_ready(node, values):
                self._run_node(node, values)
                done.append(node.name)
        if not done:
            return place
        key = tuple(done)
        if key not in place.after_host:
            gone = set(done)
            place.after_host[key] = _place([x for x in place.nodes if x.name not in gone])
        return place.after_host[key]

    def _is_ready(self, node: GraphNode, values: Mapping[str, Value]) -> bool:
        """Whether the host has to compute a node, and can do so now."""
        reads = reads_of(node)
        if not all(x in values for x in reads):
            return False
        takes_tensors = all(is_tensor(values[x]) for x in reads)
        return node.name in self._on_host or (not takes_tensors and node.op in self._host)

    def _run_node(self, node: GraphNode, values: dict[str, Value]) -> None:
        inputs = [values[x] if x else None for x in node.inputs]

        def run_graph(attribute: str, arguments: Sequence[Value]) -> list[Value]:
            return self._run_inner(node, attribute, arguments, values)

        try:
            results = self._host[node.op](NodeCall(node, inputs, run_graph))
        except LowtideError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise GraphError(f"cannot be computed: {error}", node=node.name, op=node.op) from error
        pairs = zip(node.outputs, results, strict=False)
        values.update({name: value for name, value in pairs if name})

    def _run_inner(
        self,
        node: GraphNode,
        attribute: str,
        arguments: Sequence[Value],
        values: Mapping[str, Value],
    ) -> list[Value]:
        graph = node.attributes[attribute]
        key = (node.name, attribute)
        if key not in self._inner:
            self._inner[key] = GraphRunner(graph, self._compile)
        if len(arguments) != len(graph.inputs):
            message = f"graph {graph.name!r} takes {len(graph.inputs)} values, not {len(arguments)}"
            raise GraphError(message, node=node.name, op=node.op)
        captured = {x: values[x] for x in free_values(graph) if x in values}
        given = dict(zip(graph.inputs, arguments, strict=True))
        return self._inner[key].run({**captured, **given})

    # -- compiled stretches ------------------------------------------------------------------------

    def _step(
        self, place: _Place, values: Mapping[str, Value], given: Mapping[str, Value]
    ) -> _Step:
        while True:
            key = self._key(place, values, given)
            if key in place.steps:
                return place.steps[key]
            try:
                stretch = make_stretch(
                    self._graph.name,
                    place.nodes,
                    self._available(place, values, given),
                    self._graph.outputs,
                    frozenset(self._on_host),
                )
            except MoreConstantsError as error:
                place.fixed.update(error.names)
                continue
            self._check_progress(place, stretch)
            program = None if stretch.module is None else self._compile(stretch.module)
            place.steps[key] = _Step(stretch, program, _place(stretch.postponed))
            return place.steps[key]

    def _check_progress(self, place: _Place, stretch: Stretch) -> None:
        by_name = {x.name: x for x in stretch.postponed}
        moved = [x for x in stretch.reasons if by_name[x].op in self._host]
        self._on_host.update(moved)
        if moved or len(stretch.postponed) < len(place.nodes):
            return
        for error in stretch.reasons.values():
            raise error
        stuck = stretch.postponed[0]
        message = "a sequence, string or optional value comes in, which it cannot take"
        raise GraphError(message, node=stuck.name, op=stuck.op)

    def _key(
        self, place: _Place, values: Mapping[str, Value], given: Mapping[str, Value]
    ) -> tuple[Any, ...]:
        parts: list[Any] = []
        for name in place.reads:
            if name in self._constants and name not in given:
                continue
            value: Any = values.get(name)
            if not is_tensor(value):
                parts.append(name in values)
            elif name in place.fixed:
                parts.append((value.dtype, value.shape, value.tobytes()))
            else:
                parts.append((value.dtype, value.shape))
        return (len(place.fixed), *parts)

    def _available(
        self, place: _Place, values: Mapping[str, Value], given: Mapping[str, Value]
    ) -> dict[str, Shape | Array]:
        found: dict[str, Shape | Array] = {}
        for name in place.reads:
            value: Any = values.get(name)
            if not is_tensor(value):
                continue
            is_constant = name in self._constants and name not in given
            if name in place.fixed or (is_constant and value.nbytes <= _SMALL_BYTES):
                found[name] = value
            else:
                found[name] = array_shape(ELEMENT_TYPES[value.dtype], value.shape)
        return found

    def _run_step(self, step: _Step, values: dict[str, Value]) -> None:
        values.update(step.stretch.constants)
        if step.program is None:
            return
        results = step.program(*[values[x] for x in step.stretch.parameters])
        pairs = zip(step.stretch.results, results, strict=True)
        values.update({name: np.asarray(result) for name, result in pairs})
