"""Every pass keeps what a module computes: against the evaluator, on random modules."""

import pytest
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide.ir.clone import clone_module
from lowtide.passes import Pass
from lowtide.passes.instrumentation import Checking
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

RECIPES = (Recipe(), MEMORY)


def check(step: Pass, seed: int) -> None:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    module.schedule = None
    before = clone_module(module)
    run_pipeline(module, [step], [Checking(verify)])
    assert_same_values(before, module, seeds=1)


@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_passes_keep_values(step: Pass) -> None:
    for seed in range(100):
        check(step, seed)


@pytest.mark.slow
@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_passes_keep_values_of_many(step: Pass) -> None:
    for seed in range(100, 2_000):
        check(step, seed)
