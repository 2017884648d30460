"""Changes of clusters where most is live, as long as they lower the peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, NamedTuple, TypeAlias, final

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import Alias, aliases, body_aliases
from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import Machine
from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.epilogues import store_behind_products
from lowtide.fusion.live_memory import live_memory
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.peak import Estimate, estimated
from lowtide.fusion.recomputing import (
    SECONDS_PER_BYTE,
    Recomputed,
    recompute_at,
    recompute_behind,
    recompute_by_cut,
)
from lowtide.fusion.storing import store_before
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ops.cost import cost

ROUNDS: Final = 3
"""How often a computation is scheduled to look for its peak."""


_LARGE: Final = 64 << 20
"""A peak of so many bytes is worth lowering in two ways."""

_SMALL: Final = 512
"""So many clusters are lowered in no time."""

Change: TypeAlias = Callable[[ClusterGraph, Estimate], int]
Recompute: TypeAlias = Callable[[ClusterGraph, Estimate, float, float, bool], Recomputed]
"""A change within a price for a byte, and seconds for all of it; whether it may spread values."""

_PAID: Final[tuple[tuple[Recompute, float], ...]] = (
    *((recompute_behind, price) for price in (3e-9, 1e-8, 3e-8, 1e-7)),
    (recompute_by_cut, 1e-8),
    (recompute_at, 1e-8),
)
"""Changes where time may be spent on memory, and what a byte less at the peak may cost in seconds.

First what pays one by one, the cheapest first, then what pays together, and what is only read at
the peak.
"""


@final
class Allowance:
    """The time by which kernels may run longer for a lower peak, and by which they do.

    In each computation it is the part `priority` of the time of its kernels; `spent` are the
    seconds that this came to in all of them, each run once. Nothing that takes time is tried once
    `is_late` says so.
    """

    def __init__(self, priority: float, is_late: Callable[[], bool] = lambda: False) -> None:
        self.priority, self.spent, self.is_late = priority, 0.0, is_late


@final
class PeakLowering:
    """Lowers the peaks of the computations of a module, callees first.

    What costs next to nothing is always done, and what costs more within an allowance. The former
    is done once for all allowances, unless a callee's peak differs.
    """

    def __init__(self, module: Module, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._flows: Dataflow = dataflow(module.entry)
        self._aliases: dict[Computation, tuple[Alias, ...]] = {module.entry: aliases(module)}
        for computation in self._flows:
            for _, role, callee in call_sites(computation):
                if role is CallRole.BODY:
                    self._aliases[callee] = body_aliases(self._flows[callee])
        self._cheap: dict[_Key, _Lowered] = {}
        self._settled_stores: dict[Change, Estimate] = {}
        """Those of clusters where storing values lowers nothing: it does not depend on prices."""
        self._in_vain: _InVain | None = None

    def lowered(
        self, clusters: Mapping[Computation, ClusterGraph], allowance: Allowance
    ) -> dict[Computation, ClusterGraph]:
        """Return clusters with lower peaks, or the same ones; what is given stays as it is.

        Computations stand callees first.
        """
        peaks: dict[Computation, int] = {}
        found = {}
        for computation, graph in clusters.items():
            if computation not in self._flows or _is_one_kernel(graph):
                found[computation] = graph
                continue
            lowered = self._lowest(graph, _inner(computation, peaks), allowance)
            allowance.spent += lowered.spent
            found[computation] = lowered.graph
            peaks[computation] = max(0, lowered.best.peak_bytes - self._arguments(computation))
        return found

    def _lowest(
        self, graph: ClusterGraph, inner: Mapping[Instruction, int], allowance: Allowance
    ) -> _Lowered:
        """The clusters of the lowest peak.

        Each change is for the peak that there is, so that where results overwrite arguments of the
        program, what is found as if none did may be lower: in small programs, that is looked at.
        """
        held = self._aliases.get(graph.computation, ())
        found = self._within(graph, _Given(inner, held), allowance)
        is_small = graph.computation.is_entry and len(graph.owner) <= _SMALL
        if not (held and is_small) or allowance.is_late():
            return found
        other = self._within(graph, _Given(inner, ()), allowance)
        best = self._estimate(other.graph, found.given)
        return other._replace(best=best) if best.peak_bytes < found.best.peak_bytes else found

    def _within(self, graph: ClusterGraph, given: _Given, allowance: Allowance) -> _Lowered:
        found = self._cheaply(graph, given)
        return self._paid(found, allowance) if allowance.priority else found

    def _arguments(self, computation: Computation) -> int:
        """The bytes of arguments that results overwrite: they are the caller's."""
        flow, held = self._flows[computation], self._aliases.get(computation, ())
        return sum([flow.value_bytes[flow.parameters[x.parameter]] for x in held])

    def _cheaply(self, graph: ClusterGraph, given: _Given) -> _Lowered:
        """The clusters after changes that cost next to nothing, found once."""
        key = graph, tuple(given.inner.items()), given.held
        if key not in self._cheap:
            start = _Lowered(graph, self._estimate(graph, given), given)
            found = start
            if not start.is_lowest:
                found = self._settled(start, SECONDS_PER_BYTE, inf)
            if found.has_spread and not found.is_lowest and start.best.peak_bytes >= _LARGE:
                other = self._settled(start._replace(may_spread=False), SECONDS_PER_BYTE, inf)
                found = min(found, other, key=lambda x: x.best.peak_bytes)
            self._cheap[key] = found
        return self._cheap[key]

    def _paid(self, found: _Lowered, allowance: Allowance) -> _Lowered:
        """The clusters after changes that take time, the cheapest first."""
        before = total_seconds(found.graph)
        most_seconds = before * (1 + allowance.priority)
        for change, price in _PAID:
            if found.is_lowest or allowance.is_late():
                break
            found = self._settled(found, price, most_seconds, change)
        return found._replace(spent=max(0.0, total_seconds(found.graph) - before))

    def _settled(
        self,
        found: _Lowered,
        price: float,
        most_seconds: float,
        recompute: Recompute = recompute_behind,
    ) -> _Lowered:
        """The clusters once no change lowers the peak any more, or after the last round."""
        for _ in range(ROUNDS):
            before = found.best.peak_bytes
            found = self._changed(found, store_behind_products, most_seconds)
            found = self._changed(found, store_before, most_seconds)
            found = self._recomputed(found, price, most_seconds, recompute)
            if found.best.peak_bytes == before:
                break
        return found

    def _recomputed(
        self, found: _Lowered, price: float, most_seconds: float, recompute: Recompute
    ) -> _Lowered:
        """The clusters after values are computed once more, unless a price does what one did."""
        tried = self._in_vain
        if tried is not None and tried.is_same(found, price, most_seconds, recompute):
            return found
        made = [Recomputed(0, price)]

        def change(graph: ClusterGraph, estimate: Estimate) -> int:
            left = most_seconds - total_seconds(found.graph)
            made[0] = recompute(graph, estimate, price, left, found.may_spread)
            return made[0].shortened

        lowered = self._changed(found, change, most_seconds)
        if lowered is found:
            next_price = made[0].next_price
            self._in_vain = _InVain(found, price, next_price, most_seconds, recompute)
            return found
        return lowered._replace(has_spread=found.has_spread or made[0].spread > 0)

    def _changed(self, found: _Lowered, change: Change, most_seconds: float) -> _Lowered:
        """The clusters after a change, or before it where it lowers nothing or takes too long."""
        if self._settled_stores.get(change) is found.best:
            return found
        trial = found.graph.copy()
        if change(trial, found.best) and total_seconds(trial) <= most_seconds:
            best = self._estimate(trial, found.given)
            if best.peak_bytes < found.best.peak_bytes:
                return found._replace(graph=trial, best=best)
        if change in _STORES:
            self._settled_stores[change] = found.best
        return found

    def _estimate(self, graph: ClusterGraph, given: _Given) -> Estimate:
        memory = live_memory(graph, self._flows[graph.computation], given.held, given.inner)
        return estimated(memory, self._scheduler)


_STORES: Final[tuple[Change, ...]] = (store_behind_products, store_before)


class _InVain(NamedTuple):
    """What computing values once more at some price lowered nothing of, and below which price."""

    found: _Lowered
    price: float
    next_price: float
    most_seconds: float
    recompute: Recompute

    def is_same(
        self, found: _Lowered, price: float, most_seconds: float, recompute: Recompute
    ) -> bool:
        """Return whether computing values once more would do the same again."""
        own = self.found
        if own.best is not found.best or own.may_spread is not found.may_spread:
            return False
        if self.most_seconds != most_seconds:
            return False
        return self.recompute is recompute and self.price <= price < self.next_price


class _Given(NamedTuple):
    """What callees need beyond operands and results, and the arguments that results overwrite."""

    inner: Mapping[Instruction, int]
    held: tuple[Alias, ...]


class _Lowered(NamedTuple):
    """Clusters, their estimate, and the seconds by which they take longer.

    With `has_spread`, values that late readers compute once more are computed by all readers.
    """

    graph: ClusterGraph
    best: Estimate
    given: _Given
    spent: float = 0.0
    may_spread: bool = True
    has_spread: bool = False

    @property
    def is_lowest(self) -> bool:
        """Whether no more lives at the peak than the results, which all clusters have."""
        graph = self.best.memory.graph
        return self.best.peak_bytes <= int(graph.buffer_bytes[graph.live_out].sum())


def _is_one_kernel(graph: ClusterGraph) -> bool:
    """Whether a program is one kernel: nothing lives between kernels, and nobody calls it."""
    if not graph.computation.is_entry or len(graph.owner) > 1:
        return False
    return all(x.opcode in _NO_KERNELS for x in graph.alone)


_NO_KERNELS: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT, Opcode.TUPLE})

_Key: TypeAlias = tuple[ClusterGraph, tuple[tuple[Instruction, int], ...], tuple[Alias, ...]]


def _inner(computation: Computation, peaks: Mapping[Computation, int]) -> dict[Instruction, int]:
    """What the callees of instructions need beyond operands and results."""
    inner: dict[Instruction, int] = {}
    for instruction, role, callee in call_sites(computation):
        if callee in peaks:
            made = 0 if role in _LOOPS else instruction.shape.nbytes
            inner[instruction] = max(inner.get(instruction, 0), max(0, peaks[callee] - made))
    return inner


_LOOPS: Final = (CallRole.BODY, CallRole.CONDITION)


_CONTRACTIONS = frozenset({Opcode.CONVOLUTION, Opcode.DOT})


def total_seconds(graph: ClusterGraph) -> float:
    """Return the seconds of one run: to start kernels, to move what they read and make, to compute.

    What an instruction does that is in no cluster counts only where it is a contraction, so loops
    and calls are left out.
    """
    machine, known = graph.target.machine, graph.seconds_of
    for cluster in graph.owner.values():
        found = known.get(cluster)
        if found is None or found[0] is not cluster.inputs:  # A join gives it other reads.
            known[cluster] = cluster.inputs, _seconds(cluster, machine)
    total = sum([known[x][1] for x in graph.owner.values()])
    return total + sum([_contracting(x, machine) for x in graph.alone])


def _seconds(cluster: Cluster, machine: Machine) -> float:
    moved = sum([move_seconds(read.nbytes, machine) for read in cluster.inputs.values()])
    hero = 0.0 if cluster.hero is None else _contracting(cluster.hero, machine)
    return (
        machine.launch_seconds
        + moved
        + move_seconds(cluster.root.shape.nbytes, machine)
        + cluster.seconds
        + hero
    )


def _contracting(x: Instruction, machine: Machine) -> float:
    return cost(x).flops * machine.flop_seconds if x.opcode in _CONTRACTIONS else 0.0
