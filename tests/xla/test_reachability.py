"""Reachability against a search, and its limits."""

import random

import pytest
from tests.counting import lines_run
from tests.random_modules import Recipe, random_module

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError
from lowtide.xla.analysis.reachability import closure, direct_predecessors, reachability


def searched(computation):
    """All (a, b) where b waits for a, or is it, found by walking forward from each a."""
    pairs = set()
    for start in computation.instructions.values():
        seen, stack = {start}, [start]
        while stack:
            x = stack.pop()
            for y in (*x.users, *x.control_successors):
                if y not in seen:
                    seen.add(y)
                    stack.append(y)
        pairs |= {(start, end) for end in seen}
    return pairs


@pytest.mark.parametrize("seed", range(20))
def test_reaches_what_a_search_finds(seed):
    module = random_module(seed, Recipe(control_dependencies=True))
    for computation in module.computations.values():
        known, expected = reachability(computation), searched(computation)
        nodes = list(computation.instructions.values())
        found = {(a, b) for a in nodes for b in nodes if known.reaches(a, b)}
        assert found == expected
        linked = {(a, b) for a in nodes for b in nodes if known.connected(a, b)}
        assert linked == expected | {(b, a) for a, b in expected}


def chain(length):
    lines = ["HloModule m", "ENTRY e {", "  v0 = f32[2] parameter(0)"]
    draw = random.Random(1)
    for i in range(1, length):
        a, b = draw.randrange(max(0, i - 40), i), draw.randrange(i)
        lines.append(f"  v{i} = f32[2] add(v{a}, v{b})")
    return parse_hlo("\n".join([*lines, f"  ROOT r = f32[2] negate(v{length - 1})", "}"]))


def test_each_instruction_is_looked_at_once():
    def work(count: int) -> int:
        entry = chain(count).entry
        nodes = list(entry.instructions.values())
        known = reachability(entry)
        assert known.reaches(nodes[0], nodes[-1])
        assert not known.reaches(nodes[-1], nodes[0])
        return lines_run(lambda: reachability(entry))

    assert work(8000) < 12 * work(1000)


def test_result_is_that_of_the_computation_as_it_was():
    module = parse_hlo(
        "HloModule m\nENTRY e { p = f32[2] parameter(0) a = f32[2] negate(p) b = f32[2] sine(p)"
        " ROOT r = f32[2] add(a, b) }"
    )
    a, b = (module.entry.instructions[name] for name in "ab")
    known = reachability(module.entry)
    assert not known.connected(a, b)
    b.add_control_predecessor(a)
    assert reachability(module.entry).reaches(a, b)
    assert not known.reaches(a, b)


def test_cycle_and_gap_in_a_partial_order_are_named():
    entry = chain(5).entry
    nodes = list(entry.instructions.values())
    before = direct_predecessors(entry)
    with pytest.raises(InvalidModuleError, match=r"v4: .* has a cycle before it"):
        closure(entry, {**before, nodes[4]: (*before[nodes[4]], nodes[5])})
    del before[nodes[3]]
    with pytest.raises(InvalidModuleError, match=r"v3: .* leaves it out"):
        closure(entry, before)
