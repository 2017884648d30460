"""Every pass keeps what a module computes: against the evaluator, on random modules."""

from functools import cache

import pytest
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.passes import Pass
from lowtide.passes.instrumentation import Checking
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

RECIPES = (Recipe(), MEMORY)


OFTEN = 100
"""Modules that every pass is run on."""


def drawn(seed: int) -> Module:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    module.schedule = None
    return module


@cache
def kept() -> tuple[Module, ...]:
    return tuple([drawn(seed) for seed in range(OFTEN)])


def check(step: Pass, before: Module) -> None:
    """Equal texts are not evaluated: they have equal values."""
    module = clone_module(before)
    run_pipeline(module, [step], [Checking(verify)])
    if str(module) != str(before):
        assert_same_values(before, module, seeds=1)


@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_passes_keep_values(step: Pass) -> None:
    for module in kept():
        check(step, module)


@pytest.mark.slow
@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_passes_keep_values_of_many(step: Pass) -> None:
    for seed in range(OFTEN, 2_000):
        check(step, drawn(seed))
