"""Bounds of modules, held against what every order of small modules needs when written out."""

import random
from itertools import islice, product

import pytest
from hypothesis import HealthCheck, given, settings
from tests.analysis.random_modules import RandomModule
from tests.random_modules import MEMORY, SeededChoices, random_module, random_schedule
from tests.random_modules.strategies import memory_modules
from tests.scheduling.small_graphs import small_graph

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.live_range import live_ranges, needs_no_copies
from lowtide.compiler import PlanOptions, scheduled
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.scheduling.module_bound import module_bounds
from lowtide.scheduling.module_model import model_graphs, model_order, program_order
from lowtide.scheduling.module_search import Searches
from lowtide.scheduling.search import search_order


def orders_of(computation):
    """Yield all orders of a computation that operands and control edges allow."""
    instructions = [*computation.instructions.values()]
    before = {x: {*x.operands, *x.control_predecessors} for x in instructions}

    def after(done, chosen):
        if len(chosen) == len(instructions):
            yield tuple(chosen)
        for x in instructions:
            if x not in done and before[x] <= done:
                yield from after(done | {x}, [*chosen, x])

    yield from after(frozenset(), [])


class Program:
    """A scheduled module: its bound, and what orders need that require no other copies."""

    def __init__(self, module):
        self.module = scheduled(module, PlanOptions("input"))
        self.flows = dataflow(self.module.entry)
        self.aliases = aliases(self.module)
        self.bounds = module_bounds(self.module, Searches(), self.flows)
        self.bound = self.bounds[self.module.entry].beyond_arguments
        self.given = self.live_bytes(self.module.schedule.sequences)

    def live_bytes(self, sequences):
        """What an order needs beyond arguments, None where it needs other copies."""
        entry = self.module.entry
        if not needs_no_copies(entry, sequences, self.flows, self.aliases):
            return None
        ranges = live_ranges(entry, sequences, self.flows, self.aliases, owns_results=True)
        return ranges.live_bytes

    def some_orders(self, seed, count):
        """What random orders need, of those that are legal."""
        for number in range(count):
            order = random_schedule(self.module, SeededChoices(1000 * seed + number))
            live = self.live_bytes(order.sequences)
            if live is not None:
                yield live

    def all_orders(self, most):
        """What all orders need, None where there are more than `most`."""
        rows = [[*islice(orders_of(x), most + 1)] for x in self.flows]
        count = 1
        for row in rows:
            count *= len(row)
        if count > most:
            return None
        found = [self.live_bytes(dict(zip(self.flows, x, strict=True))) for x in product(*rows)]
        return [live for live in found if live is not None]


SETTINGS = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SETTINGS
@given(memory_modules())
def test_no_order_needs_less_than_the_bound(module) -> None:
    program = Program(module)
    assert program.bound <= min([program.given, *program.some_orders(0, 6)])


def of_modules(seeds, orders):
    """How often the least of many orders is the bound, in how many modules."""
    tight = 0
    for seed in seeds:
        source = random_module(seed, MEMORY) if seed % 2 else parse_hlo(vectors(seed))
        program = Program(source)
        least = min([program.given, *program.some_orders(seed, orders)])
        assert type(program.bound) is int  # and not a number of NumPy, which JSON does not have
        assert program.bound <= least, seed
        tight += program.bound == least
    return tight


def vectors(seed):
    return RandomModule(seed, 3 + seed % 5).text()


def test_bounds_of_modules_with_calls_loops_and_branches() -> None:
    assert of_modules(range(40), 8) >= 30


def of_scheduled_modules(seeds, orders):
    """How often an order is legal, of modules with the copies that some other order needs."""
    legal = 0
    for seed in seeds:
        module = random_module(seed, MEMORY) if seed % 2 else parse_hlo(vectors(seed))
        module.schedule = random_schedule(module, SeededChoices(seed))
        program = Program(module)
        found = [*program.some_orders(seed, orders)]
        legal += len(found)
        assert program.bound <= min([program.given, *found]), seed
    return legal


def test_bounds_of_modules_that_come_scheduled() -> None:
    assert of_scheduled_modules(range(40), 10) > 40


@pytest.mark.slow
def test_bounds_of_many_modules_that_come_scheduled() -> None:
    assert of_scheduled_modules(range(10_000, 10_600), 40) > 2_000


@pytest.mark.slow
def test_bounds_of_many_modules() -> None:
    assert of_modules(range(10_000, 11_000), 40) >= 750


def of_all_orders(seeds, most):
    """How many bounds are the least of all orders, and of how many modules these are few."""
    tight = tried = 0
    for seed in seeds:
        module = parse_hlo(RandomModule(seed, 3, depth=1 + seed % 2).text())
        program = Program(module)
        every = program.all_orders(most)
        if every is None:
            continue
        tried += 1
        assert program.bound <= min(every), seed
        tight += program.bound == min(every)
        peaks = [x.found.peak_bytes for x in program.bounds.values()]
        assert all(x.bytes <= peak for x, peak in zip(program.bounds.values(), peaks, strict=True))
    return tight, tried


def test_bounds_against_all_orders() -> None:
    tight, tried = of_all_orders(range(80), 400)
    assert tried > 10
    assert tight >= 0.9 * tried


@pytest.mark.slow
def test_bounds_of_many_modules_against_all_orders() -> None:
    tight, tried = of_all_orders(range(5_000, 7_000), 3_000)
    assert tried > 200
    assert tight >= 0.9 * tried


def test_an_order_of_the_model_is_one_of_the_program() -> None:
    for seed in range(40):
        module = scheduled(random_module(seed, MEMORY), PlanOptions("input"))
        draw = random.Random(seed)
        for model in model_graphs(module):
            plain = program_order(model.order, model)
            assert sorted(plain) == [*range(len(model.flow.nodes))]
            assert model_order(plain, model) == model.order
            loose = [*model.order]
            at = draw.randrange(len(loose))
            assert program_order(loose[:at] + loose[at:], model) == plain


CALL = """HloModule m
callee {
  p = f32[100] parameter(0)
  ROOT n = f32[100] negate(p)
}
ENTRY main {
  a = f32[100] parameter(0)
  b = f32[100] exponential(a)
  c = f32[100] call(b), to_apply=callee
  ROOT d = f32[100] negate(c)
}
"""


def test_a_callee_may_write_over_what_it_is_given() -> None:
    """Each step reads one value and makes another one in its place."""
    program = Program(parse_hlo(CALL))
    assert program.bound == program.given == 400


BRANCHES = """HloModule m
large {
  p = f32[100] parameter(0)
  e = f32[100] exponential(p)
  s = f32[100] reverse(e), dimensions={0}
  ROOT r = f32[100] add(e, s)
}
small {
  q = f32[50] parameter(0)
  zero = f32[] constant(0)
  ROOT b = f32[100] pad(q, zero), padding=0_50
}
ENTRY main {
  i = s32[] parameter(0)
  x = f32[100] parameter(1)
  a = f32[100] exponential(x)
  y = f32[50] parameter(2)
  b = f32[50] exponential(y)
  ROOT c = f32[100] conditional(i, a, b), branch_computations={large, small}
}
"""


TWO_CALLS = """HloModule m
large {
  p = f32[100] parameter(0)
  e = f32[100] exponential(p)
  w = f32[400] concatenate(e, e, e, e), dimensions={0}
  ROOT s = f32[100] slice(w), slice={[300:400]}
}
small {
  q = f32[100] parameter(0)
  ROOT n = f32[100] negate(q)
}
ENTRY main {
  x = f32[100] parameter(0)
  a = f32[100] exponential(x)
  b = f32[100] call(a), to_apply=large
  c = f32[100] call(a), to_apply=small
  ROOT t = (f32[100], f32[100]) tuple(b, c)
}
"""


def test_no_order_begins_calls_long_before_they_run() -> None:
    """While `large` holds 2,000 bytes, there is `a` for the other call, or what that returned."""
    program = Program(parse_hlo(TWO_CALLS))
    assert program.bound == program.given == min(program.all_orders(100)) == 2400


def test_a_branch_does_not_hold_what_another_branch_is_given() -> None:
    """Inside `large`, `b` is dead: 400 of `a` or `e`, and 400 of `s`; in the end 400."""
    program = Program(parse_hlo(BRANCHES))
    assert program.bound == program.given == 800


def test_a_copy_that_stays_does_not_make_another_one_needless() -> None:
    """The order that is chosen here leaves out one copy, and has to leave in what it equals."""
    program = Program(random_module(560, MEMORY))
    assert program.bound <= program.given


def test_equal_graphs_are_searched_once(monkeypatch) -> None:
    first, second = [small_graph(random.Random(seed)).memory_graph() for seed in (1, 2)]
    searched = []

    def search(graph, *rest):
        searched.append(graph)
        return search_order(graph, *rest)

    monkeypatch.setattr("lowtide.scheduling.search.search_order", search)
    searches = Searches()
    found = [searches.search(first) for _ in range(2)]
    assert found[0] is found[1]
    assert len(searched) == 1
    searches.search(second)
    assert len(searched) == 2
