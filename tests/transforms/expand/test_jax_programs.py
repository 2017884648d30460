"""Programs of JAX written out by the expanders: they compute what JAX does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import evaluate
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_rule import leaves
from lowtide.transforms.expand.legalize import outside_core

jax = pytest.importorskip("jax")


def squares_of_pool(x: Any) -> Any:
    pool = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return (pool**2).sum()


def cross_entropy(x: Any, labels: Any) -> Any:
    chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1)
    return -chosen.mean()


def written(x: Any, y: Any) -> Any:
    x = x.at[1].set(y).at[0, 2, :, 1].add(2.0).at[:, 8, 8].max(0.5)
    return x.at[jax.numpy.int32(x[0, 0, 0, 0] * 9)].multiply(y, mode="clip")


def bits(key: Any) -> Any:
    return jax.random.bits(jax.random.wrap_key_data(key, impl="rbg"), (7,))


def solved(x: Any, y: Any) -> Any:
    """Cholesky, LU, QR, triangular systems, a determinant, an inverse."""
    linalg = jax.numpy.linalg
    root = linalg.cholesky(x @ x.T + jax.numpy.eye(len(x)))
    half = jax.scipy.linalg.solve_triangular(root, y, lower=True)
    return root, half, linalg.solve(x, y), linalg.qr(x), linalg.slogdet(x), linalg.inv(x)


IMAGES = np.random.default_rng(0).standard_normal((2, 9, 9, 3)).astype(np.float32)
ROWS = IMAGES.reshape(2, -1)
SQUARE = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
PLACES = np.array([[1, 5], [3, 2]], np.int32)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "max pool": (jax.grad(squares_of_pool), (IMAGES,)),
    "cumsum": (lambda x: jax.lax.cumsum(x, 1), (IMAGES,)),
    "cumlogsumexp": (lambda x: jax.lax.cumlogsumexp(x, 1, reverse=True), (ROWS,)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0)), (IMAGES,)),
    "topk": (lambda x: jax.lax.top_k(x, 2), (IMAGES,)),
    "bits": (bits, (np.arange(4, dtype=np.uint32),)),
    "linear algebra": (solved, (SQUARE, ROWS[:, :6].T)),
    "cross entropy": (jax.grad(cross_entropy), (ROWS, PLACES[:, 0])),
    "slices at known places": (written, (IMAGES, IMAGES[0])),
    "take": (jax.vmap(lambda x, i: x[i]), (ROWS, PLACES)),
    "set": (jax.vmap(lambda x, i: x.at[i].add(1.0)), (ROWS, PLACES)),
}


PASSES = (
    "expand-custom-calls,row-major,legalize,expand-rng-bit-generator,expand-select-and-scatter,"
    "expand-topk,normalize-indices"
)
"""What the pipeline runs, then the expanders for targets without kernels for these operations."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_jax(name: str) -> None:
    function, arguments = PROGRAMS[name]
    compiled = jax.jit(function)
    module = lowtide.parse_hlo(compiled.lower(*arguments).as_text(dialect="hlo"))
    assert sum([step.run(module) for step in parse_passes(PASSES)])
    assert not outside_core(module)
    assert "custom-call" not in str(module)
    expected = jax.tree.leaves(compiled(*arguments))
    for want, got in zip(expected, leaves(evaluate(module, list(arguments))), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-5)
