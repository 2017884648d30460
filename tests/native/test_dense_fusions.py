"""Fusions in which values are read again elsewhere, held against the evaluator."""

import numpy as np
import pytest
from tests.native.comparing import compiled, reference
from tests.native.dense_fusions import dense_fusion

from lowtide.checking.tolerances import assert_values_close
from lowtide.compiler import PlanOptions
from lowtide.frontend.hlo_text import parse_hlo

WAYS = (PlanOptions("scheduled"), 2), (PlanOptions("input"), 1)


def hold(seed: int) -> None:
    """Hold one module against the evaluator, with small whole numbers, of which sums are exact."""
    dtype = (np.int32, np.int32, np.float32)[seed % 3]
    module = parse_hlo(dense_fusion(seed, "f32" if dtype is np.float32 else "s32"))
    random = np.random.default_rng(seed)
    given = [random.integers(-3, 4, (8, 8)).astype(dtype) for _ in range(2)]
    arguments = [*given, dtype(random.integers(-2, 3)), np.int32(random.integers(-2, 9))]
    expected = reference(module, arguments)
    for options, threads in WAYS:
        got = compiled(module, threads, options=options)(*arguments)
        assert_values_close(got, expected, module.entry.root.shape)


@pytest.mark.parametrize("seed", range(330, 370))
def test_a_fusion_that_reads_values_again(seed: int) -> None:
    hold(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 100))
def test_many_fusions_that_read_values_again(first: int) -> None:
    for seed in range(first, first + 100):
        hold(seed)
