"""Values that live at the peak are computed once more where they are read later, if that is cheap.

What was normalized, activated, cast or masked is often kept for a far reader though what it was
made of is kept too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import Alias, aliases
from lowtide.analysis.footprint import body_aliases
from lowtide.analysis.memory_profile import last_uses, step_bytes
from lowtide.fusion.cluster import Cluster, Kind
from lowtide.fusion.cluster_graph import ClusterGraph, copied, evaluations, join
from lowtide.fusion.legality import Joint, joined
from lowtide.fusion.live_memory import LiveMemory, Scheduler, live_memory
from lowtide.ir import Computation, Instruction, Module

ROUNDS: Final = 3
"""How often a computation is scheduled to look for its peak."""

SECONDS_PER_BYTE: Final = 1e-9
"""What a byte less at the peak may cost: ten times what it takes to move it."""

_LEAST_SHARE: Final = 1 / 1024
"""Values that are a smaller part of the peak are left alone."""


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The order that a scheduler gives the clusters, and what is live where most is."""

    memory: LiveMemory
    position: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    peak_at: int
    peak_bytes: int


@final
class PeakLowering:
    """Lowers the peaks of the computations of a module, callees first."""

    def __init__(self, module: Module, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._flows: Dataflow = dataflow(module.entry)
        self._aliases: dict[Computation, tuple[Alias, ...]] = {module.entry: aliases(module)}
        for computation in self._flows:
            for _, role, callee in call_sites(computation):
                if role is CallRole.BODY:
                    self._aliases[callee] = body_aliases(self._flows[callee])
        self._peaks: dict[Computation, int] = {}

    def lowered(self, graph: ClusterGraph) -> ClusterGraph:
        """Return the clusters with lower peak, or the same ones; what is given stays as it is."""
        computation = graph.computation
        if computation not in self._flows:
            return graph
        best = self._estimate(graph)
        for _ in range(ROUNDS):
            trial = graph.copy()
            if not _Round(trial, best).run():
                break
            found = self._estimate(trial)
            if found.peak_bytes >= best.peak_bytes:
                break
            graph, best = trial, found
        flow = self._flows[computation]
        held = self._aliases.get(computation, ())
        arguments = sum([flow.value_bytes[flow.parameters[x.parameter]] for x in held])
        self._peaks[computation] = max(0, best.peak_bytes - arguments)
        return graph

    def _estimate(self, graph: ClusterGraph) -> _Estimate:
        computation = graph.computation
        flow = self._flows[computation]
        memory = live_memory(graph, flow, self._aliases.get(computation, ()), self._inner(graph))
        order = self._scheduler(memory.graph)
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        producer = memory.graph.producer
        first = np.where(producer >= 0, position[producer], 0)
        steps = step_bytes(memory.graph, order)
        peak_at = int(steps.argmax())
        last = last_uses(memory.graph, position, first)
        return _Estimate(memory, position, last, peak_at, int(steps[peak_at]))

    def _inner(self, graph: ClusterGraph) -> Mapping[Instruction, int]:
        """What the callees of instructions need beyond operands and results."""
        inner: dict[Instruction, int] = {}
        for instruction, role, callee in call_sites(graph.computation):
            if callee in self._peaks:
                made = 0 if role in _LOOPS else instruction.shape.nbytes
                nbytes = max(0, self._peaks[callee] - made)
                inner[instruction] = max(inner.get(instruction, 0), nbytes)
        return inner


_LOOPS: Final = (CallRole.BODY, CallRole.CONDITION)


@final
class _Round:
    """What is done about one peak: the largest values first, as long as bytes are gained."""

    def __init__(self, graph: ClusterGraph, estimate: _Estimate) -> None:
        self.graph = graph
        self.memory = estimate.memory
        self.position = estimate.position
        self.last = estimate.last.tolist()
        self.at = estimate.peak_at
        self.bytes = estimate.memory.graph.buffer_bytes.tolist()
        self.least = max(1, int(estimate.peak_bytes * _LEAST_SHARE))
        self.consumers = estimate.memory.graph.consumers.rows()

    def run(self) -> int:
        """Shorten lives that span the peak; return how many."""
        live_out = self.memory.graph.live_out
        shortened = 0
        for root, buffer in sorted(self.memory.stored.items(), key=self._readers_first):
            if self.bytes[buffer] < self.least or live_out[buffer]:
                continue
            if self._is_before(root) and self.last[buffer] > self.at:
                shortened += self._shorten(root, buffer)
        return shortened

    def _readers_first(self, item: tuple[Instruction, int]) -> int:
        return -self.graph.order[item[0]]

    def _is_before(self, value: Instruction) -> bool:
        return int(self.position[self.memory.number[value]]) <= self.at

    def _shorten(self, root: Instruction, buffer: int) -> bool:
        """Have a value computed once more by all that read it after the peak."""
        if any(self._is_late_and_alone(node) for node in self.consumers[buffer]):
            return False
        producer = self._from_what_is_live(self.graph.owner[root])
        readers = [x for x in self.graph.readers.get(root, ()) if not self._is_before(x.root)]
        joints = _joints(producer, readers)
        if joints is None or not self._is_worth_it(producer, buffer, readers):
            return False
        end = self.last[buffer]
        self.last[buffer] = self.at
        for operand in producer.inputs:
            read = self.memory.buffer_of(operand)
            if read is not None:
                self.last[read] = max(self.last[read], end)
        self.graph.absorb(producer, joints)
        return True

    def _is_late_and_alone(self, node: int) -> bool:
        return self.position[node] > self.at and self.memory.nodes[node] in self.graph.alone

    def _from_what_is_live(self, producer: Cluster) -> Cluster:
        """The same value, computed from values that live at the peak anyway, as far as possible."""
        for _ in range(_LEVELS):
            dead = [x for x in producer.inputs if self._longer([x])]
            owners = [self.graph.owner[x] for x in dead if x in self.graph.owner]
            joints = [(x, joined(x, producer)) for x in owners if x.kind is Kind.LOOP]
            found = next(((x, joint) for x, joint in joints if joint is not None), None)
            if found is None:
                break
            producer = copied(producer)
            join(found[0], producer, found[1])
        return producer

    def _longer(self, values: Iterable[Instruction]) -> int:
        """The bytes that would live at the peak, and do not yet, if values were read after it."""
        buffers = dict.fromkeys([self.memory.buffer_of(x) for x in values])
        return sum([self.bytes[x] for x in buffers if x is not None and self.last[x] <= self.at])

    def _is_worth_it(self, producer: Cluster, buffer: int, readers: list[Cluster]) -> bool:
        gained = self.bytes[buffer] - self._longer(producer.inputs)
        if gained < self.least:
            return False
        root = producer.root
        times = sum([evaluations(x, x.inputs[root], root) for x in readers])
        return bool(times * producer.seconds <= gained * SECONDS_PER_BYTE)


def _joints(producer: Cluster, readers: list[Cluster]) -> list[tuple[Cluster, Joint]] | None:
    """What readers become that compute a value; None unless it is a loop, and all of them can."""
    if producer.kind is not Kind.LOOP or not readers:
        return None
    joints = []
    for reader in readers:
        joint = joined(producer, reader)
        if joint is None:
            return None
        joints.append((reader, joint))
    return joints


_LEVELS: Final = 4
"""How many kernels one after the other may be computed once more."""
