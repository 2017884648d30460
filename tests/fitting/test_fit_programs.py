"""Ten programs: the size that `fit` names fits when it is planned there, the next one does not."""

from collections.abc import Callable
from typing import Any

import pytest

import lowtide

jax = pytest.importorskip("jax")
jnp = jax.numpy
LIMIT = 400_000


def f32(*sizes: int) -> Any:
    return jax.ShapeDtypeStruct(sizes, "float32")


def mlp(w: Any, x: Any) -> Any:
    return jax.nn.relu(x @ w) @ w.T


def training(w: Any, x: Any) -> Any:
    return jax.grad(lambda w: (jnp.tanh(jnp.tanh(x @ w) @ w) ** 2).mean())(w)


def attention(w: Any, x: Any) -> Any:
    return jax.nn.softmax((x @ w) @ x.T) @ x


def scanned(w: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=5)


def convolved(w: Any, x: Any) -> Any:
    kernel = w.reshape(1, 1, 32, 32)[:, :, :3, :3]
    return jax.lax.conv(x.reshape(-1, 1, 4, 8), kernel, (1, 1), "SAME")


def distances(w: Any, x: Any) -> Any:
    return jnp.sort(jnp.abs(x[:, None, :] - x[None, :, :]).sum(-1), axis=1) @ (x @ w)


def stacked(w: Any, x: Any) -> Any:
    return jnp.concatenate([x @ w, jnp.exp(x), x], axis=1)


def normalized(w: Any, x: Any) -> Any:
    return (x - x.mean(0)) / (x.std(0) + 1e-3) @ w


def accumulated(w: Any, x: Any) -> Any:
    return jnp.cumsum(x @ w, axis=0)


def gathered(w: Any, x: Any) -> Any:
    return w[jnp.argmax(x, axis=1)].at[0].add(1.0)


PROGRAMS: tuple[Callable[..., Any], ...] = (
    *(mlp, training, attention, scanned, convolved),
    *(distances, stacked, normalized, accumulated, gathered),
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_largest_size_fits_and_the_next_does_not(program: Callable[..., Any]) -> None:
    found = lowtide.fit(program, f32(32, 32), f32(8, 32), dim="B=x:0", limit=LIMIT)
    assert found.largest is not None and found.next is not None
    assert found.next.size == found.largest.size + 1
    peaks = [
        lowtide.explain(program, f32(32, 32), f32(x.size, 32)).total_bytes
        for x in (found.largest, found.next)
    ]
    assert peaks[0] == found.largest.total_bytes <= LIMIT < peaks[1]
