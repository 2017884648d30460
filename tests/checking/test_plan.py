"""Whole plans: right ones pass, and of those broken at random, all that do damage are caught."""

import random

import pytest
from tests.random_modules import MEMORY, random_module
from tests.support import EXAMPLES, read_text

from lowtide.checking import check_plan, inspect_plan
from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.hlo_text import parse_hlo

from .byte_machine import is_damaged
from .mutations import MUTATIONS, definitions, definitions_only

CAUSES = {"overlap", "read-only", "alias", "colocation", "misplaced"}
"""The kinds of violations that say what goes wrong, not only that a slice looks wrong."""


@pytest.mark.parametrize("seed", range(60))
def test_plans_of_random_modules_are_right(seed):
    planned = plan(random_module(seed), PlanOptions("input"))
    assert check_plan(planned.module, planned.assignment) == ()


@pytest.mark.parametrize("name", ["mlp", "lstm", "mnist_cnn", "gpt2"])
def test_plans_of_the_examples_are_right(name):
    planned = plan(parse_hlo(read_text(EXAMPLES / f"{name}.hlo.xz")), PlanOptions("input"))
    check = inspect_plan(planned.module, planned.assignment)
    assert check.violations == ()
    assert check.values > 20
    assert check.nbytes == sum(x.nbytes for x in planned.assignment.allocations)


def broken_plans(seeds, count):
    """Yield (module, plan) of plans that a run along some path shows to be wrong."""
    for seed in seeds:
        planned = plan(random_module(seed, MEMORY), PlanOptions("input"))
        whole = definitions_only(planned.assignment)
        assert check_plan(planned.module, whole) == ()
        assert not is_damaged(planned.module, whole)
        if not definitions(whole):
            continue
        for number, mutate in enumerate(MUTATIONS):
            broken = mutate(whole, random.Random(100 * seed + number))
            if is_damaged(planned.module, broken):
                yield f"{mutate.__name__} {seed}", planned.module, broken
                count -= 1
            if not count:
                return
    raise AssertionError(f"{count} plans are missing")


def check_all_caught(seeds, count):
    missed = [
        name
        for name, module, broken in broken_plans(seeds, count)
        if not CAUSES & {x.kind.value for x in check_plan(module, broken)}
    ]
    assert missed == []


def test_a_hundred_broken_plans_are_caught():
    check_all_caught(range(1000), 100)


@pytest.mark.slow
def test_five_hundred_broken_plans_are_caught():
    check_all_caught(range(1000, 3000), 500)


def test_the_report_is_the_same_each_time():
    planned = plan(random_module(20, MEMORY), PlanOptions("input"))
    whole = definitions_only(planned.assignment)
    broken = MUTATIONS[2](whole, random.Random(1))
    first, second = (check_plan(planned.module, broken) for _ in range(2))
    assert list(map(str, first)) == list(map(str, second))
    assert first


LAYERS = 400
CALLS = """HloModule calls, is_scheduled=true
l0 {{
  a = f32[16] parameter(0)
  ROOT b = f32[16] negate(a)
}}
{layers}
ENTRY e {{
  p = f32[16] parameter(0)
  ROOT r = f32[16] call(p), to_apply=l{last}
}}"""


def test_calls_may_nest_deeply():
    layers = "\n".join(
        f"l{i} {{\n  a{i} = f32[16] parameter(0)\n"
        f"  ROOT b{i} = f32[16] call(a{i}), to_apply=l{i - 1}\n}}"
        for i in range(1, LAYERS)
    )
    planned = plan(parse_hlo(CALLS.format(layers=layers, last=LAYERS - 1)), PlanOptions("input"))
    check = inspect_plan(planned.module, planned.assignment)
    assert check.violations == ()
    assert check.steps == 2 * LAYERS + 2
