"""Modules of repeated layers are valid, of the size asked for, and the same with calls."""

import numpy as np
import pytest
from tests.generated.layers import layered_module

from lowtide import compiler
from lowtide.evaluator import evaluate
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("count", [1, 3_000])
def test_layers_are_valid(count: int, calls: bool) -> None:
    module = layered_module(count, calls=calls)
    verify(module)
    assert count == 1 or module.instruction_count == pytest.approx(count, rel=0.15)
    assert len(module.input_output_aliases) == len(module.entry.parameters) - 1


def test_one_layer_has_the_same_values_with_calls_and_optimized() -> None:
    plain, called = [layered_module(1, calls=calls) for calls in (False, True)]
    arguments = [np.asarray(x) * np.float32(0.1) for x in seeded_arguments(plain, 0)]
    expected = evaluate(plain, arguments)
    for a, b in zip(expected, evaluate(called, arguments), strict=True):
        assert np.array_equal(a, b)
    for module in (plain, called):
        compiler.optimize(module, compiler.PlanOptions("fused"))
        for a, b in zip(expected, evaluate(module, arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
