"""Programs of JAX after legalization: they compute what JAX does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import evaluate
from lowtide.testing.check_rule import leaves
from lowtide.transforms.expand.legalize import legalize, outside_core

jax = pytest.importorskip("jax")


def squares_of_pool(x: Any) -> Any:
    pool = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return (pool**2).sum()


def bits(key: Any) -> Any:
    return jax.random.bits(jax.random.wrap_key_data(key, impl="rbg"), (7,))


IMAGES = np.random.default_rng(0).standard_normal((2, 9, 9, 3)).astype(np.float32)
ROWS = IMAGES.reshape(2, -1)
PLACES = np.array([[1, 5], [3, 2]], np.int32)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "max pool": (jax.grad(squares_of_pool), (IMAGES,)),
    "cumsum": (lambda x: jax.lax.cumsum(x, 1), (IMAGES,)),
    "cumlogsumexp": (lambda x: jax.lax.cumlogsumexp(x, 1, reverse=True), (ROWS,)),
    "topk": (lambda x: jax.lax.top_k(x, 2), (IMAGES,)),
    "bits": (bits, (np.arange(4, dtype=np.uint32),)),
    "take": (jax.vmap(lambda x, i: x[i]), (ROWS, PLACES)),
    "set": (jax.vmap(lambda x, i: x.at[i].add(1.0)), (ROWS, PLACES)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_jax(name: str) -> None:
    function, arguments = PROGRAMS[name]
    compiled = jax.jit(function)
    module = lowtide.parse_hlo(compiled.lower(*arguments).as_text(dialect="hlo"))
    assert legalize(module)
    assert not outside_core(module)
    expected = jax.tree.leaves(compiled(*arguments))
    for want, got in zip(expected, leaves(evaluate(module, list(arguments))), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-5)
