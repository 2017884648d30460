"""Interference on random modules: against real runs, against pairs, against other orderings."""

import itertools
import random

import pytest
from tests.analysis.execution_trace import Trace, live_at_once
from tests.random_modules import MEMORY, Recipe, SeededChoices, random_module, random_schedule

from lowtide.ir import Opcode, Schedule
from lowtide.transforms.flatten_call_graph import flatten_call_graph
from lowtide.xla.analysis.execution_order import BEFORE
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow
from lowtide.xla.analysis.ordering import (
    DependencyOrdering,
    PredecessorOrdering,
    SequentialOrdering,
)
from lowtide.xla.analysis.partial_liveness import interference, interference_under
from lowtide.xla.streams.launch_order import partial_orders

PLAIN = Recipe(
    ("elementwise", "data movement", "indexing", "contraction", "tuples", "in place", "sorting"),
    max_instructions=8,
    control_dependencies=True,
)


def flat_module(seed, recipe=MEMORY):
    module = random_module(seed, recipe)
    flatten_call_graph(module)
    return module


def executed_values(module):
    tree = DependencyOrdering(module).tree
    executed = set(tree.computations)
    return [x for x in hlo_dataflow(module).values if x.instruction.parent in executed]


def pairs_of(found):
    numbers = [value.number for value in found.values]
    return {
        frozenset((numbers[i], numbers[int(j)]))
        for i in range(len(numbers))
        for j in found.neighbours(i)
    }


def some_extension(order, draw):
    """A random total order that a partial order allows."""
    waits = {x: set(before) for x, before in order.predecessors.items()}
    done = []
    while waits:
        ready = [x for x, before in waits.items() if not before]
        chosen = draw.choice(ready)
        del waits[chosen]
        for before in waits.values():
            before.discard(chosen)
        done.append(chosen)
    return tuple(done)


@pytest.mark.parametrize("seed", range(32))
def test_what_is_live_at_once_in_a_run_interferes(seed):
    module = flat_module(seed)
    values = executed_values(module)
    dependency = pairs_of(interference(DependencyOrdering(module), values))
    for number in range(4):
        schedule = random_schedule(module, SeededChoices(number))
        sequential = pairs_of(interference(SequentialOrdering(module, schedule), values))
        assert sequential <= dependency
        for run in range(2):
            trace = Trace(module, schedule.sequences, random.Random(run))
            assert live_at_once(trace, values) <= sequential


@pytest.mark.parametrize("seed", range(20))
def test_without_control_flow_interference_is_what_some_run_shows(seed):
    module = random_module(seed, PLAIN)
    values = executed_values(module)
    schedule = random_schedule(module, SeededChoices(seed))
    trace = Trace(module, schedule.sequences, random.Random(0))
    found = pairs_of(interference(SequentialOrdering(module, schedule), values))
    assert found == live_at_once(trace, values)


@pytest.mark.parametrize("seed", range(40))
def test_dependency_is_the_union_of_all_legal_orders(seed):
    recipe = Recipe(PLAIN.families, max_instructions=2, control_dependencies=True)
    module = random_module(seed, recipe)
    order = partial_orders(module)["dependency"]
    orders = set()
    draw = random.Random(seed)
    for _ in range(200):
        orders.add(some_extension(order, draw))
    values = executed_values(module)
    union = set()
    for sequence in orders:
        trace = Trace(module, {module.entry: sequence}, draw)
        union |= live_at_once(trace, values)
    found = pairs_of(interference(DependencyOrdering(module), values))
    assert union <= found
    if len(orders) < 50:
        assert union == found


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_bits_say_what_pairs_of_values_say(seed):
    module = flat_module(seed)
    values = executed_values(module)
    schedule = random_schedule(module, SeededChoices(seed))
    orders = partial_orders(module)
    orderings = [
        DependencyOrdering(module),
        SequentialOrdering(module, schedule),
        PredecessorOrdering(module, orders["launch"], schedule=schedule),
    ]
    for ordering in orderings:
        expected = {
            frozenset((a.number, b.number))
            for a, b in itertools.combinations(values, 2)
            if ordering.may_interfere(a, b)
        }
        found = interference(ordering, values)
        assert pairs_of(found) == expected
        assert all(
            found.between(i, j) == found.between(j, i)
            for i, j in itertools.product(range(len(values)), repeat=2)
        )


@pytest.mark.parametrize("seed", range(20))
def test_the_more_is_ordered_the_less_interferes(seed):
    module = flat_module(seed)
    values = executed_values(module)
    rest = random_schedule(module, SeededChoices(seed))
    orders = partial_orders(module, follow_schedule=True)
    found = {
        name: pairs_of(interference_under(module, order, values, rest))
        for name, order in orders.items()
    }
    assert found["sequential"] <= found["launch"] <= found["dependency"]
    sequence = some_extension(orders["launch"], random.Random(seed))
    schedule = Schedule({**rest.sequences, module.entry: sequence})
    assert pairs_of(interference(SequentialOrdering(module, schedule), values)) <= found["launch"]


@pytest.mark.parametrize("seed", range(20))
def test_executes_before_is_a_strict_partial_order(seed):
    module = flat_module(seed)
    schedule = random_schedule(module, SeededChoices(seed))
    launch = partial_orders(module)["launch"]
    for ordering in (
        DependencyOrdering(module),
        SequentialOrdering(module, schedule),
        PredecessorOrdering(module, launch, schedule=schedule),
    ):
        nodes = [x for c in ordering.tree.computations for x in c.instructions.values()]
        draw = random.Random(seed)
        nodes = draw.sample(nodes, min(40, len(nodes)))
        after = {
            a: {b for b in nodes if ordering.execution_constraint(a, b) in BEFORE} for a in nodes
        }
        for a in nodes:
            assert a not in after[a]
            for b in after[a]:
                assert a not in after[b]
                assert after[b] <= after[a]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(32, 1032))
def test_what_is_live_at_once_in_a_run_interferes_on_many_modules(seed):
    test_what_is_live_at_once_in_a_run_interferes(seed)


def test_random_modules_have_all_kinds_of_control_flow():
    opcodes = set()
    for seed in range(32):
        module = flat_module(seed)
        opcodes |= {x.opcode for c in module.computations.values() for x in c.instructions.values()}
    wanted = {Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL, Opcode.ASYNC_START}
    assert wanted <= opcodes
