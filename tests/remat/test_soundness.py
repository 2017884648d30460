"""Bounds and plans against exhaustive search over sequences of small random graphs."""

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.remat.replay import replay
from tests.remat.small_graphs import least_extra, random_graph

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.remat.bound import BoundSearch, recompute_bound, topological_order
from lowtide.remat.frontier import frontier
from lowtide.remat.network import UNBOUNDED, Networks, RematCut
from lowtide.remat.tables import Int64Array, tables_of
from lowtide.search.effort import Effort


def budgets_of(graph: MemoryGraph, random: Random) -> list[int]:
    """Two budgets below the peak of an order, most of them feasible."""
    tables = tables_of(graph)
    order = topological_order(tables)
    peak = peak_bytes(graph, order)
    least = BoundSearch(tables, order, Effort.FAST).least_bytes
    return [random.randint(min(least, peak), peak), max(least - random.randint(0, 1), peak - 1)]


def some_orders(graph: MemoryGraph, random: Random, count: int) -> list[Int64Array]:
    """Orders of all nodes: the first by creation, the others at random."""
    before = [{*x, *y} for x, y in zip(graph.operands.rows(), graph.control.rows(), strict=True)]
    orders = [topological_order(tables_of(graph))]
    for _ in range(count - 1):
        order: list[int] = []
        while len(order) < graph.node_count:
            free = [v for v in range(graph.node_count) if v not in order]
            order.append(random.choice([v for v in free if before[v] <= set(order)]))
        orders.append(np.array(order, np.int64))
    return orders


def check(seeds: range) -> dict[str, int]:
    """Assert what has to hold; count how often bounds and plans meet the optimum."""
    names = ("feasible", "infeasible", "recomputed", "bound_met", "plan_met", "proved")
    tally = dict.fromkeys(names, 0)
    for seed in seeds:
        random = Random(seed)
        graph = random_graph(random)
        orders = some_orders(graph, random, 8)
        found = frontier(graph, orders, Effort.FAST)
        for budget in budgets_of(graph, random):
            best = least_extra(graph, budget)
            bound = recompute_bound(graph, budget, orders[0])
            once = random.sample(range(graph.node_count), random.randint(0, 2))
            least = least_extra(graph, budget, once)
            held = recompute_bound(graph, budget, orders[0], once=once)
            assert held.extra_seconds <= (math.inf if least is None else least + 1e-12), (
                seed,
                budget,
                once,
            )
            point = found.within(budget)
            tally["feasible" if best is not None else "infeasible"] += 1
            if best is None:
                assert point is None
                tally["proved"] += bound.is_infeasible
                continue
            assert bound.extra_seconds <= best + 1e-12, (seed, budget)
            tally["bound_met"] += bound.extra_seconds > best - 1e-12
            tally["recomputed"] += best > 0
            if point is None:
                continue
            checked = replay(graph, point.sequence)
            assert checked.peak_bytes == point.peak_bytes <= budget
            assert checked.extra_seconds == pytest.approx(point.extra_seconds, abs=1e-15)
            assert point.extra_seconds >= best - 1e-12, (seed, budget)
            tally["plan_met"] += point.extra_seconds < best + 1e-12
    return tally


def test_no_bound_above_and_no_plan_below_the_optimum() -> None:
    tally = check(range(120))
    assert tally["recomputed"] > 10
    assert tally["bound_met"] > 0.8 * tally["feasible"]
    assert tally["plan_met"] > 0.8 * tally["feasible"]
    assert tally["proved"] > 0.7 * tally["infeasible"]


@pytest.mark.slow
def test_soundness_of_many() -> None:
    tally = check(range(1000, 3000))
    assert tally["recomputed"] > 300


@pytest.mark.parametrize("seed", range(40))
def test_flows_prove_their_bounds(seed: int) -> None:
    """The flow is checked on the network as the module's text defines it, from the graph alone."""
    random = Random(seed)
    graph = random_graph(random, 12)
    tables = tables_of(graph)
    order = topological_order(tables)
    search = BoundSearch(tables, order, Effort.DEFAULT)
    budget = max(search.least_bytes, peak_bytes(graph, order) * 2 // 3)
    bound = search.at(budget)
    if bound.price is None:
        assert bound.extra_ticks == 0
        return
    assert bound.node is not None
    flow = search.flow(bound)
    relatives = Relatives(graph, bound.node)
    price = bound.price.numerator / 2**bound.price.shift
    into = np.zeros(graph.node_count, np.int64)
    left = np.zeros(len(graph.buffer_bytes), np.int64)
    for node, buffer, ticks in flow.reads.tolist():
        assert node in graph.consumers.rows()[buffer]
        assert node not in relatives.descendants
        into[node] -= ticks
        left[buffer] += ticks
    for buffer, ticks in flow.held.tolist():
        assert buffer not in relatives.fixed
        assert ticks <= price * int(graph.buffer_bytes[buffer])
        left[buffer] -= ticks
        if graph.producer[buffer] >= 0:
            into[graph.producer[buffer]] += ticks
    for node, ticks in flow.runs.tolist():
        assert node in relatives.ancestors
        assert ticks <= graph.seconds[node] / tables.tick_seconds
        into[node] -= ticks
    for buffer, rest in enumerate(left.tolist()):
        readers = set(graph.consumers.rows()[buffer])
        from_source = bool(graph.live_out[buffer]) or bool(readers & relatives.descendants)
        assert rest <= 0 and (from_source or rest == 0)
    for node, rest in enumerate(into.tolist()):
        assert node in relatives.descendants or rest == 0 or node in relatives.closed
    assert -left.sum() == flow.value
    room = budget - relatives.fixed_bytes
    assert bound.extra_ticks <= flow.value - price * room + 1


class Relatives:
    """What the network of a node is made of."""

    def __init__(self, graph: MemoryGraph, node: int) -> None:
        count = graph.node_count
        before = [set(x) for x in graph.control.rows()]
        reads = set()
        for buffer, readers in enumerate(graph.consumers.rows()):
            reads |= {buffer} if node in readers else set()
            for reader in readers:
                before[reader] |= {int(graph.producer[buffer])} - {-1}
        self.ancestors = self._closure(node, before)
        after = [{y for y in range(count) if x in before[y]} for x in range(count)]
        self.descendants = self._closure(node, after) - {node}
        self.closed = {x for y in self.ancestors for x in graph.control.rows()[y]}
        made = set(np.flatnonzero(graph.producer == node).tolist())
        takeable = {read for x, read, _ in graph.shares.tolist() if x == node}
        self.fixed = made | (reads - takeable)
        own = graph.scratch_bytes[node] + graph.inner_bytes[node]
        self.fixed_bytes = int(graph.buffer_bytes[sorted(self.fixed)].sum() + own)

    def _closure(self, start: int, steps: list[set[int]]) -> set[int]:
        found, waiting = {start}, [start]
        while waiting:
            for x in steps[waiting.pop()] - found:
                found.add(x)
                waiting.append(x)
        return found


def test_networks_refuse_what_may_not_run_again() -> None:
    """A node in `once` is held, whatever the price."""
    for seed in range(30):
        graph = random_graph(Random(seed))
        tables = tables_of(graph, once=range(graph.node_count))
        networks = Networks(tables, topological_order(tables))
        for node in range(graph.node_count):
            network = networks.of(node)
            assert network.cut(networks.price(1.0)).ticks == 0


def test_a_network_without_arcs_proves_nothing() -> None:
    """A node that may not run again, all others behind it: nothing costs anything."""
    for seed in range(40):
        graph = random_graph(Random(seed))
        tables = tables_of(graph, once=range(graph.node_count))
        networks = Networks(tables, topological_order(tables))
        price = networks.price(1e6)
        for node in range(graph.node_count):
            other, network = networks.of(graph.node_count - 1 - node), networks.of(node)
            other.cut(price)  # Leaves numbers where the next solver lies.
            if len(network._arcs.tail):
                continue
            assert network.cut(price) == RematCut(0, 0, 0)
            assert (network.least_held(), network.flow(price).value) == (0, 0)


def test_bounds_of_the_impossible_are_infinite() -> None:
    graph = random_graph(Random(3))
    bound = recompute_bound(graph, 0)
    assert bound.is_infeasible and math.isinf(bound.extra_seconds)
    assert bound.fixed_bytes > 0


def test_no_price_makes_a_flow_too_large() -> None:
    """All buffers together, of terabytes, cost at most what fits: the sum of a flow is exact."""
    for seed in range(12):
        graph = random_graph(Random(seed))
        large = replace(graph, buffer_bytes=graph.buffer_bytes << 36)
        tables = tables_of(large)
        networks = Networks(tables, topological_order(tables))
        for price in (1.0, 1e9, 1e30):
            assert networks.price(price).times(large.buffer_bytes).sum() <= UNBOUNDED
