"""`jit` within a budget of memory."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide
from lowtide.options import Options

jax = pytest.importorskip("jax")


def loss(weights, x):
    for w in weights:
        x = jax.numpy.tanh(x @ w)
    return (x * x).sum()


def test_a_function_keeps_to_its_memory(tmp_path, monkeypatch) -> None:
    """The gradient of a chain of layers, which keeps all of them, runs some of them again."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    random = np.random.default_rng(0)
    weights = [random.standard_normal((16, 16), np.float32) / 4 for _ in range(6)]
    x = random.standard_normal((256, 16), np.float32)
    step = jax.grad(loss)
    options = Options(threads=1, effort="fast")
    plain = lowtide.jit(step, options=options).lower(weights, x).compile()
    budget = plain.memory["ladder"]["arena_bytes"] * 2 // 3
    fast = lowtide.jit(step, memory=budget, options=options)
    assert fast.lower(weights, x).compile().memory["ladder"]["arena_bytes"] <= budget
    for found, expected in zip(fast(weights, x), step(weights, x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    told: list[str] = []
    again = lowtide.jit(step, memory=budget - 1, options=options, progress=told.append)
    assert again.lower(weights, x).compile().memory["ladder"]["arena_bytes"] < budget
    assert any("more time" in text for text in told)
    least = lowtide.jit(step, memory="100B", options=options)
    with pytest.raises(lowtide.OverMemoryError, match="donating arguments 0"):
        least(weights, x)
