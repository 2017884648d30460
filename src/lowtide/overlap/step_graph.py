"""The work of a computation as a device and its links do it: who computes, who sends, who waits.

A node computes for its `seconds`. One that starts a collective takes none itself: its link sends
for `transfer` seconds, from then on or once it is free, and the node of the second half waits for
that. A collective in one half, and a loop that has collectives inside, hold the device and their
links at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.module_graphs import ComputationGraph, module_graphs
from lowtide.cost.devices import DeviceRecord
from lowtide.cost.module_times import Times, module_times
from lowtide.ir import Computation, Module, Opcode
from lowtide.overlap.pairs import is_collective, started
from lowtide.records import dataclass
from lowtide.scheduling.module_places import forced_edges
from lowtide.spmd.wire import sending

Links = tuple[int, ...]

_DONES: Final = frozenset(
    {
        *(Opcode.ALL_GATHER_DONE, Opcode.ALL_REDUCE_DONE, Opcode.COLLECTIVE_PERMUTE_DONE),
        Opcode.ASYNC_DONE,
    }
)


@dataclass(frozen=True, eq=False)
class StepGraph:
    """The nodes of a computation's memory graph with what each takes.

    seconds: the time of the device, 0 of what starts a collective.
    transfer: the time on a link, 0 where nothing is sent; `link` is its number, else -1.
    start_of: of a second half the node that started it, else -1.
    holds: links that a node holds while the device is busy with it.
    before: the nodes that run earlier, by operands and by control edges.
    inside: the time that transfers inside of a node take, and of it what the device waits for.
    """

    seconds: tuple[float, ...]
    transfer: tuple[float, ...]
    link: tuple[int, ...]
    start_of: tuple[int, ...]
    holds: tuple[Links, ...]
    before: tuple[tuple[int, ...], ...]
    inside: tuple[tuple[float, float], ...]
    slots: tuple[int, ...]

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self.seconds)

    @cached_property
    def after(self) -> list[list[int]]:
        """The nodes that wait for each node directly."""
        found: list[list[int]] = [[] for _ in self.seconds]
        for node, before in enumerate(self.before):
            for x in before:
                found[x].append(node)
        return found

    @cached_property
    def topological(self) -> list[int]:
        """The nodes, each behind those before it."""
        waits = [len(x) for x in self.before]
        order = [node for node, count in enumerate(waits) if not count]
        for node in order:
            for x in self.after[node]:
                waits[x] -= 1
                if not waits[x]:
                    order.append(x)
        return order


@dataclass(frozen=True, slots=True)
class CalleeTime:
    """One run of a computation: its seconds, those of its transfers, and of these the awaited."""

    seconds: float
    sending: float
    waiting: float
    links: Links


class StepModel:
    """The graphs of all computations of a scheduled module, for devices of one record."""

    def __init__(self, module: Module, device: DeviceRecord) -> None:
        self.module, self.device = module, device
        self.graphs: list[ComputationGraph] = module_graphs(module)
        """Callees first, the entry last."""
        flows: Dataflow = {x.computation: x.flow for x in self.graphs}
        self._times: dict[Computation, Times] = module_times(flows, device.machine)
        self._edges = forced_edges(self.graphs, {x: {} for x in flows})

    def step_graph(
        self, graph: ComputationGraph, callees: Mapping[Computation, CalleeTime]
    ) -> StepGraph:
        """Return the work of one computation, given what a run of each callee takes."""
        nodes, numbers = graph.flow.nodes, graph.flow.number
        times = self._times[graph.computation]
        totals = {run.callee: callees[run.callee].seconds for run in times.runs}
        for x in nodes:
            if x.opcode is Opcode.ASYNC_START and started(x) is not None:
                totals[x.called_computations[0]] = 0.0
        seconds = times.with_callees(totals).tolist()
        transfer, link, start_of = [0.0] * len(nodes), [-1] * len(nodes), [-1] * len(nodes)
        holds: list[Links] = [()] * len(nodes)
        inside = _inside(times, callees, len(nodes))
        for number, x in enumerate(nodes):
            wrapped = started(x)
            if wrapped is not None:
                link[number], transfer[number] = sending(wrapped, self.module, self.device)
                seconds[number], inside[number] = 0.0, (0.0, 0.0)
            elif is_collective(x):
                own, took = sending(x, self.module, self.device)
                seconds[number], holds[number], inside[number] = took, (own,), (took, took)
            elif x.opcode in _DONES and started(x.operands[0]) is not None:
                start_of[number] = numbers[x.operands[0]]
            elif x.opcode is not Opcode.FUSION:
                used = [k for y in x.called_computations if y in callees for k in callees[y].links]
                holds[number] = tuple(sorted(set(used)))
        return StepGraph(
            tuple(seconds),
            tuple(transfer),
            tuple(link),
            tuple(start_of),
            tuple(holds),
            self._before(graph),
            tuple(inside),
            tuple([x.slots for x in self.device.links]),
        )

    def _before(self, graph: ComputationGraph) -> tuple[tuple[int, ...], ...]:
        found = [
            dict.fromkeys([*operands, *control])
            for operands, control in zip(
                graph.graph.operands.rows(), graph.graph.control.rows(), strict=True
            )
        ]
        for first, second in self._edges[graph.computation]:
            found[second][first] = None
        return tuple([tuple(x) for x in found])


def _inside(
    times: Times, callees: Mapping[Computation, CalleeTime], count: int
) -> list[tuple[float, float]]:
    """Of each node what its callees send and wait for; of branches, the largest."""
    found = [(0.0, 0.0)] * count
    for run in times.runs:
        callee = callees[run.callee]
        sending, waiting = found[run.node]
        own = run.count * callee.sending, run.count * callee.waiting
        if run.is_certain:
            found[run.node] = sending + own[0], waiting + own[1]
        else:
            found[run.node] = max(sending, own[0]), max(waiting, own[1])
    return found


def links_of(graph: StepGraph) -> Links:
    """Return the links that a computation uses."""
    used = {x for x in graph.link if x >= 0} | {x for own in graph.holds for x in own}
    return tuple(sorted(used))


def sending_seconds(graph: StepGraph) -> float:
    """Return the time that all transfers of a computation take, one after the other."""
    return sum(graph.transfer) + sum([sending for sending, _ in graph.inside])


Order = Sequence[int]
