"""Runs of a graph: compiled stretches, and between them the nodes that the host computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final, TypeAlias, final

import numpy as np

from lowtide.frontend.graphs.graph import (
    GraphError,
    GraphNode,
    OpGraph,
    execution_order,
    free_values,
)
from lowtide.frontend.graphs.registry import check_known, op_names
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.stretch import ConditionsError, MoreConstantsError, Stretch, make_stretch
from lowtide.ir import Module, Shape, array_shape
from lowtide.ir.literal import ELEMENT_TYPES, Array
from lowtide.onnx.endings import Endings, HostNode, can_end
from lowtide.onnx.host.registry import host_kernels, stands_in
from lowtide.onnx.known_steps import KEPT_STEPS
from lowtide.onnx.places import (
    HostRun,
    Place,
    PlannedStep,
    Program,
    kept_values,
    kinds_of,
    place_of,
)
from lowtide.onnx.values import Value, is_tensor, read_only
from lowtide.records import dataclass

Compile: TypeAlias = Callable[[Module], Program]

_SMALL_BYTES: Final = 1 << 12
"""Initializers of more bytes are parameters of modules, smaller ones constants."""

_MOST_CASES: Final = 4
"""As many steps at a place may differ in values that only conditions need."""


@dataclass(frozen=True, eq=False, slots=True)
class _Inner:
    """What runs a graph inside of a node, and the values around it that the graph reads."""

    runner: GraphRunner
    free: tuple[str, ...]


@final
class GraphRunner:
    """Runs one graph.

    What it compiles is kept by the shapes of values, and by those values that have to be known: at
    each place the `most` steps that were used last. `constants` are values that are the same in
    all runs.
    """

    def __init__(
        self,
        graph: OpGraph,
        compile_: Compile,
        constants: Mapping[str, Array] | None = None,
        most: int = KEPT_STEPS,
    ) -> None:
        self._graph = graph
        self._compile = compile_
        self._constants = dict(constants or {})
        self._most = most
        self._inner: dict[tuple[str, str], _Inner] = {}
        self._start: dict[tuple[str, ...], Place] = {}
        self._host = host_kernels()
        native = set(op_names(DOMAIN))
        self._on_host = {x.name for x in graph.nodes if x.op in self._host and x.op not in native}
        self._no_tensors = {x for x, y in self._constants.items() if not is_tensor(y)}
        self._host_nodes: dict[str, HostNode] = {}
        self._lock = Lock()
        self.made = 0
        """How many steps were made so far."""

    def run(self, given: Mapping[str, Value]) -> list[Value]:
        """Return the outputs of the graph; raises LowtideError, which names the node.

        Several threads may run it at once, and one of them makes a step that is new.
        """
        values: dict[str, Value] = {**self._constants, **given}
        place = self._first(tuple(given))
        while True:
            seen = len(self._on_host)
            place = self._run_host(place, values)
            if not place.nodes:
                return [self._output(x, values) for x in self._graph.outputs]
            step = self._step(place, values, seen)
            self._run_step(step, values)
            place = step.following
            if place.nodes:
                values = kept_values(values, place.names.union(self._graph.outputs))

    def programs(self) -> Iterator[tuple[Stretch, Program]]:
        """Give what is compiled: stretches of this graph, then of graphs inside of its nodes."""
        waiting = [*self._start.values()]
        while waiting:
            place = waiting.pop(0)
            for step in place.steps.values():
                if step.program is not None:
                    yield step.stretch, step.program
                waiting.append(step.following)
            waiting += [*place.after_host.values()]
        for inner in [*self._inner.values()]:
            yield from inner.runner.programs()

    def whole_step(
        self, given: Mapping[str, Value]
    ) -> tuple[tuple[str, ...], PlannedStep, Endings] | None:
        """Return the step that computed the whole graph, and the nodes that the host ran behind it.

        None where there was more or less. Before it stand those of the given values that decided
        about it, sorted.
        """
        with self._lock:  # What decides about a step is read with it.
            return self._whole_step(given)

    def _whole_step(
        self, given: Mapping[str, Value]
    ) -> tuple[tuple[str, ...], PlannedStep, Endings] | None:
        place = self._start.get(tuple(given))
        if (
            place is None
            or place.after_host
            or place.free
            or not all(map(is_tensor, given.values()))
        ):
            return None
        step = place.steps.find(self._key(place, {**self._constants, **given}))
        endings = None if step is None else _endings(step.following)
        if step is None or endings is None:
            return None
        return tuple(sorted({*place.fixed, *place.cases}.intersection(given))), step, endings

    def touch(self, names: tuple[str, ...], parameters: tuple[str, ...]) -> None:
        """Count the step from the start of the graph that has these parameters as used last.

        `names` are what was given.
        """
        place = self._start.get(names)
        if place is not None:
            place.steps.use(lambda x: x.stretch.parameters is parameters)

    def forget(self) -> None:
        """Let go of all that is compiled."""
        self._start.clear()
        self._inner.clear()

    def _first(self, names: tuple[str, ...]) -> Place:
        found = self._start.get(names)
        if found is None:
            order = execution_order(self._graph, {*names, *self._constants})
            same = frozenset(self._constants).difference(names)
            found = self._start.setdefault(names, place_of(order, same))
        return found

    def _output(self, name: str, values: Mapping[str, Value]) -> Value:
        if name not in values:
            raise GraphError(f"no node of graph {self._graph.name!r} makes its output {name!r}")
        return values[name]

    # -- nodes on the host -------------------------------------------------------------------------

    def _run_host(self, place: Place, values: dict[str, Value]) -> Place:
        own = self._on_host
        kinds = kinds_of(place.varying, values)
        if not own and not self._no_tensors and False not in kinds:
            return place
        case = (len(own), *kinds)
        known = place.host_runs.get(case)
        done = () if known is None else self._run_again(known, values)
        if known is not None and len(done) == len(known.nodes):
            return known.following
        found = self._run_ready(place, values, done)
        steps = [(self._host_node(x), x.outputs, kinds_of(x.outputs, values)) for x in found]
        key = tuple([x.name for x in found])
        following = place.after_host.get(key) if key else place
        if following is None:
            following = place.after_host.setdefault(key, place.without(frozenset(key)))
        place.host_runs[case] = HostRun(found, tuple(steps), following)
        return following

    def _run_again(self, known: HostRun, values: dict[str, Value]) -> tuple[GraphNode, ...]:
        """Run the nodes of an earlier run, as long as each makes what it did; return those."""
        for number, (run, names, made) in enumerate(known.steps):
            run(values)
            if kinds_of(names, values) != made:
                return known.nodes[: number + 1]
        return known.nodes

    def _run_ready(
        self, place: Place, values: dict[str, Value], done: tuple[GraphNode, ...]
    ) -> tuple[GraphNode, ...]:
        """Run the nodes that the host has to, whose inputs are there; return those, `done` too."""
        ran, names = [*done], {x.name for x in done}
        seen = [*place.varying, *[x for node in done for x in node.outputs]]
        no_tensors = self._no_tensors.union(
            [x for x in seen if x in values and not is_tensor(values[x])]
        )
        for node, reads in zip(place.nodes, place.reads, strict=True):
            if node.name in names or (
                node.name not in self._on_host
                and (no_tensors.isdisjoint(reads) or node.op not in self._host)
            ):
                continue
            if all(x in values for x in reads):
                self._host_node(node)(values)
                made = [x for x in node.outputs if x in values]
                no_tensors.update([x for x in made if not is_tensor(values[x])])
                ran.append(node)
        return tuple(ran)

    def _host_node(self, node: GraphNode) -> HostNode:
        found = self._host_nodes.get(node.name)
        if found is None:
            found = HostNode(node, self._host[node.op], self._run_inner)
            self._host_nodes[node.name] = found
        return found

    def _run_inner(
        self,
        node: GraphNode,
        values: Mapping[str, Value],
        attribute: str,
        arguments: Sequence[Value],
    ) -> list[Value]:
        graph = node.attributes[attribute]
        key = (node.name, attribute)
        inner = self._inner.get(key)
        if inner is None:
            runner = GraphRunner(graph, self._compile, most=self._most)
            inner = self._inner.setdefault(key, _Inner(runner, tuple(free_values(graph))))
        if len(arguments) != len(graph.inputs):
            message = f"graph {graph.name!r} takes {len(graph.inputs)} values, not {len(arguments)}"
            raise GraphError(message, node=node.name, op=node.op)
        captured = {x: values[x] for x in inner.free if x in values}
        given = dict(zip(graph.inputs, arguments, strict=True))
        return inner.runner.run({**captured, **given})

    # -- compiled stretches ------------------------------------------------------------------------

    def _step(self, place: Place, values: Mapping[str, Value], seen: int) -> PlannedStep:
        """The step of a place; `seen` nodes were the host's when it ran what it could."""
        found = place.steps.find(self._key(place, values))
        if found is not None:
            return found
        with self._lock:  # What is known of the place does not change while a step is made.
            return self._made_step(place, values, seen)

    def _made_step(self, place: Place, values: Mapping[str, Value], seen: int) -> PlannedStep:
        while True:
            key = self._key(place, values)
            found = place.steps.find(key)
            if found is not None:
                return found
            if _has_too_many_cases(place, values):
                continue
            try:
                stretch = self._stretch(place, values)
            except ConditionsError as error:
                place.cases.update({x: set() for x in error.names})
                continue
            except MoreConstantsError as error:
                place.fixed.update(error.names)
                continue
            self._check_progress(place, stretch, seen)
            program = None if stretch.module is None else self._compile(stretch.module)
            done = frozenset([x.name for x in place.nodes]).difference(
                [x.name for x in stretch.postponed]
            )
            step = PlannedStep(_kept(stretch), program, place.without(done))
            self.made += 1
            return place.steps.add(key, step, self._most)

    def _stretch(self, place: Place, values: Mapping[str, Value]) -> Stretch:
        return make_stretch(
            self._graph.name,
            place.nodes,
            self._available(place, values),
            self._graph.outputs,
            frozenset(self._on_host),
            frozenset(place.free),
        )

    def _check_progress(self, place: Place, stretch: Stretch, seen: int) -> None:
        """Raise what stops a run, unless the host has more nodes to run than the `seen` ones."""
        by_name = {x.name: x for x in stretch.postponed}
        moved = [x for x in stretch.reasons if stands_in(by_name[x].op)]
        self._on_host.update(moved)
        if moved or len(self._on_host) > seen or len(stretch.postponed) < len(place.nodes):
            return
        check_known(place.nodes, DOMAIN, self._host)
        for error in stretch.reasons.values():
            raise error
        stuck = stretch.postponed[0]
        message = "a sequence, string or optional value comes in, which it cannot take"
        raise GraphError(message, node=stuck.name, op=stuck.op)

    def _key(self, place: Place, values: Mapping[str, Value]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for name in place.varying:
            value: Any = values.get(name)
            if not is_tensor(value):
                parts.append(name in values)
            elif name in place.fixed or name in place.cases:
                parts.append((value.dtype, value.shape, value.tobytes()))
            else:
                parts.append((value.dtype, value.shape))
        return (len(place.fixed), len(place.cases), *parts)

    def _available(self, place: Place, values: Mapping[str, Value]) -> dict[str, Shape | Array]:
        found: dict[str, Shape | Array] = {}
        for name in dict.fromkeys([x for reads in place.reads for x in reads]):
            value: Any = values.get(name)
            if not is_tensor(value):
                continue
            is_fixed = name in place.fixed or name in place.cases
            if is_fixed:
                found[name] = value.copy()  # The caller may write to it before a later run.
            elif name in place.same and value.nbytes <= _SMALL_BYTES:
                found[name] = value
            else:
                found[name] = array_shape(ELEMENT_TYPES[value.dtype], value.shape)
        return found

    def _run_step(self, step: PlannedStep, values: dict[str, Value]) -> None:
        values.update(step.stretch.constants)
        if step.program is None:
            return
        results = step.program(*[values[x] for x in step.stretch.parameters])
        pairs = zip(step.stretch.results, results, strict=True)
        values.update({name: np.asarray(result) for name, result in pairs})


def _kept(stretch: Stretch) -> Stretch:
    """A stretch whose constants, which are given in each run, cannot be written to."""
    return replace(stretch, constants={x: read_only(y) for x, y in stretch.constants.items()})


def _endings(place: Place) -> Endings | None:
    """The nodes that are left at a place, where the host runs them one after the other, else None.

    What tensors are does not depend on numbers where no node has a graph inside.
    """
    after = place.after_host.get(tuple([x.name for x in place.nodes]))
    if place.nodes and (after is None or after.nodes or not all(map(can_end, place.nodes))):
        return None
    return place.nodes


def _has_too_many_cases(place: Place, values: Mapping[str, Value]) -> bool:
    """Note the values that conditions need; whether one is no longer a constant from now on."""
    for name, seen in place.cases.items():
        seen.add(values[name].tobytes())
    gone = [name for name, seen in place.cases.items() if len(seen) > _MOST_CASES]
    for name in gone:
        del place.cases[name]
        place.free.add(name)
    return bool(gone)
