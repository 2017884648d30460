"""Random modules compute natively what the evaluator computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.native.comparing import compiled
from tests.random_modules import MEMORY, Recipe, random_module
from tests.random_modules.recipe import COMMON_TYPES, FAMILIES

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.ir import Opcode
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.module import Module
from lowtide.testing.check_pass import seeded_arguments

RECIPES = (
    Recipe(element_types=COMMON_TYPES),
    MEMORY,
    Recipe(element_types=COMMON_TYPES, max_size=37, max_instructions=8),
    Recipe((*FAMILIES, "in place"), element_types=COMMON_TYPES, is_scheduled=True),
    Recipe(layouts=True, max_instructions=12),
)
"""Many operations; values that want one place; sizes beside those of vectors; no passes at all;
every element type and any layout."""

FACTOR = 4.0
"""Operations in a row, each of which may round."""


def reads_bits(module: Module) -> bool:
    """Whether bits of floating-point numbers may show: the sign of a NaN is nobody's."""
    return any(
        x.opcode in (Opcode.BITCAST, Opcode.BITCAST_CONVERT)
        and not x.operands[0].shape.element_type.is_integer
        and x.shape.element_type is not x.operands[0].shape.element_type
        for computation in module.computations.values()
        for x in computation.instructions.values()
    )


def check(module: Module, seed: int, threads: int, target: str) -> bool:
    """Compare, and return whether both sides can run the module and show numbers only."""
    arguments = seeded_arguments(module, seed)
    try:
        with np.errstate(all="ignore"):
            expected = evaluate(module, arguments)
        executable = compiled(module, threads, target)
    except UnsupportedOpError:
        return False
    try:
        assert_values_close(
            executable(*arguments), expected, module.entry.root.shape, factor=FACTOR
        )
    except AssertionError:
        if not reads_bits(module):
            raise
        return False
    return True


def check_seed(seed: int) -> bool:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    return check(module, seed, 1 + seed % 2, ("native", "avx2")[seed // 5 % 2])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 32))
def test_random_modules(seed: int) -> None:
    check_seed(seed)


def test_most_random_modules_have_native_code() -> None:
    ran = [check_seed(seed) for seed in range(50)]
    assert sum(ran) >= 49


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 4_000, 200))
def test_many_random_modules(start: int) -> None:
    for seed in range(start, start + 200):
        check_seed(seed)
