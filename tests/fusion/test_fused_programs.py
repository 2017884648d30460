"""Fused programs compute what they did, also inside a plan in which fusions work in place."""

import pytest
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import differing_leaves, run_in_arena
from lowtide.ir.clone import clone_module
from lowtide.passes import Fixpoint, run_pipeline
from lowtide.passes.registry import passes
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.verifier import verify

RECIPES = (MEMORY, Recipe(max_instructions=40))


def check(seed: int) -> None:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    module.schedule = None
    original = clone_module(module)
    named = passes()
    simplify = Fixpoint("simplify", (named["algsimp"], named["cse"], named["dce"]))
    run_pipeline(module, [simplify, named["priority-fusion"], named["cse"], named["dce"]])
    verify(module)
    assert_same_values(original, module, seeds=1)
    plan = compiler.plan(module)
    assert [str(violation) for violation in check_plan(plan.module, plan.assignment)] == []
    arguments = seeded_arguments(module, seed)
    found = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    assert differing_leaves(plan.module, found, evaluate(plan.module, arguments)) == []


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_modules(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2_000, 100))
def test_many_random_modules(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
