"""Fused programs compute what they did, also inside a plan in which fusions work in place."""

import pytest
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import differing_leaves, run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
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


MASKS = """
HloModule m
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  places = s32[64,2] parameter(0)
  shares = f32[64,2] parameter(1)
  x = f32[64,16] parameter(2)
  zero = f32[] constant(0)
  at = s32[64,2,64] broadcast(places), dimensions={0,1}
  slots = s32[64,2,64] iota(), iota_dimension=2
  is_at = pred[64,2,64] compare(at, slots), direction=EQ
  hot = f32[64,2,64] convert(is_at)
  sent = f32[64,64] reduce(hot, zero), dimensions={1}, to_apply=add
  taken = f32[64,64] dot(hot, shares), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={1}, rhs_contracting_dims={1}
  slotted = f32[64,16] dot(sent, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  y = f32[64,16] tanh(slotted)
  ROOT r = f32[64,16] dot(taken, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_masks_that_send_to_few_places_are_made_where_products_read_them() -> None:
    module = parse_hlo(MASKS)
    plan = compiler.plan(module)
    assert_same_values(module, plan.module, seeds=2)
    mask = 64 * 64 * 4
    assert plan.report.ladder.live_bytes < mask
