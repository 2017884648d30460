"""Operations of random programs in JAX: each makes a value of one or two others.

A maker gets its own source of random numbers, which it reads for shapes alone, so that a program is
the same each time that it is traced. It returns None where it has nothing to do to such arrays.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Maker = Callable[[random.Random, Any, Any], Any]

MOST_ELEMENTS = 700
MOST_RANK = 4


def _axis(source: random.Random, x: Any) -> int:
    return source.randrange(x.ndim)


def unary(source: random.Random, x: Any, y: Any) -> Any:
    return source.choice([jnp.tanh, jnp.sin, jnp.negative, jnp.abs, jnp.floor, jnp.square])(x)


def binary(source: random.Random, x: Any, y: Any) -> Any:
    function = source.choice([jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum])
    if x.shape == y.shape:
        return function(x, y)
    if x.ndim > y.ndim and x.shape[x.ndim - y.ndim :] == y.shape:
        return function(x, y)
    return function(x, x[::-1] if x.ndim else x)


def product(source: random.Random, x: Any, y: Any) -> Any:
    pairs = [(a, b) for a in range(x.ndim) for b in range(y.ndim) if x.shape[a] == y.shape[b]]
    if not pairs:
        return None
    a, b = source.choice(pairs)
    return lax.dot_general(x, y, (((a,), (b,)), ((), ())))


def batched_product(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim != 3:
        return None
    return jnp.einsum("bij,bkj->bik", x, x)


def reduction(source: random.Random, x: Any, y: Any) -> Any:
    axes = tuple(source.sample(range(x.ndim), source.randrange(1, x.ndim + 1)))
    function = source.choice([jnp.sum, jnp.max, jnp.min, jnp.mean])
    return function(x, axis=axes, keepdims=source.random() < 0.3)


def arg_reduction(source: random.Random, x: Any, y: Any) -> Any:
    rounded = jnp.round(x * 8)  # Near values are equal wherever they are computed.
    return source.choice([jnp.argmax, jnp.argmin])(rounded, axis=_axis(source, x)) / 8.0


def transpose(source: random.Random, x: Any, y: Any) -> Any:
    order = list(range(x.ndim))
    source.shuffle(order)
    return jnp.transpose(x, order)


def reshape(source: random.Random, x: Any, y: Any) -> Any:
    sizes = list(x.shape)
    if source.random() < 0.5 and len(sizes) > 1:
        d = source.randrange(len(sizes) - 1)
        sizes[d : d + 2] = [sizes[d] * sizes[d + 1]]
        return jnp.reshape(x, sizes)
    places = [(d, k) for d, n in enumerate(sizes) for k in (1, 2, 3, 4) if n % k == 0]
    if not places or len(sizes) == MOST_RANK:
        return None
    d, k = source.choice(places)
    sizes[d : d + 1] = source.choice([[k, sizes[d] // k], [sizes[d] // k, k]])
    return jnp.reshape(x, sizes)


def broadcast(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim == MOST_RANK:
        return None
    added = source.randrange(x.ndim + 1)
    sizes = [*x.shape[:added], source.choice([1, 2, 4]), *x.shape[added:]]
    kept = [d for d in range(len(sizes)) if d != added]
    return lax.broadcast_in_dim(x, sizes, kept)


def cut(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    begin = source.randrange(x.shape[d])
    end = source.randrange(begin + 1, x.shape[d] + 1)
    return lax.slice_in_dim(x, begin, end, source.choice([1, 1, 2]), d)


def moving_cut(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    size = source.randrange(1, x.shape[d] + 1)
    start = jnp.int32(jnp.sum(jnp.abs(jnp.round(y)))) % (x.shape[d] + 2) - 1
    return lax.dynamic_slice_in_dim(x, start, size, d)


def moving_update(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    size = source.randrange(1, x.shape[d] + 1)
    update = lax.slice_in_dim(x, 0, size, 1, d) + 1
    start = jnp.int32(jnp.sum(jnp.abs(jnp.round(y)))) % (x.shape[d] + 1)
    return lax.dynamic_update_slice_in_dim(x, update, start, d)


def concatenate(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    other = y if y.shape == x.shape else x * 2
    return jnp.concatenate([x, other], d)


def pad(source: random.Random, x: Any, y: Any) -> Any:
    padding = [(0, 0, 0)] * x.ndim
    d = _axis(source, x)
    low, high = source.randrange(-1, 3), source.randrange(-1, 3)
    if x.shape[d] + low + high < 1:
        return None
    padding[d] = (low, high, source.choice([0, 0, 1]))
    return lax.pad(x, jnp.float32(source.choice([0.0, 2.0])), padding)


def turn(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    return source.choice([lambda: jnp.flip(x, d), lambda: jnp.roll(x, source.randrange(3), d)])()


def gather(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    places = [source.randrange(x.shape[d]) for _ in range(source.randrange(1, 7))]
    return jnp.take(x, jnp.array(places), axis=d, mode=source.choice(["clip", "wrap", "fill"]))


def gather_by_value(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    places = jnp.int32(jnp.abs(jnp.round(x * 4))) % x.shape[d]
    return jnp.take_along_axis(x, places, axis=d)


def scatter(source: random.Random, x: Any, y: Any) -> Any:
    places = jnp.array([source.randrange(x.shape[0]) for _ in range(3)])
    update = jnp.broadcast_to(x[:1], (3, *x.shape[1:])) + 0.5
    return source.choice([x.at[places].add, x.at[places].max, x.at[places].min])(update)


def sort(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    if source.random() < 0.6:
        return jnp.sort(x, d)
    return jnp.argsort(jnp.round(x * 4), d) * 0.25


def running_sum(source: random.Random, x: Any, y: Any) -> Any:
    function = source.choice([lax.cumsum, lax.cummax, lax.cumlogsumexp])
    return function(x, axis=_axis(source, x), reverse=source.random() < 0.3)


def choice(source: random.Random, x: Any, y: Any) -> Any:
    return jnp.where(jnp.round(x * 4) > 0, x, jnp.float32(source.choice([0.0, -1.0])))


def iota(source: random.Random, x: Any, y: Any) -> Any:
    return x + lax.broadcasted_iota(jnp.float32, x.shape, _axis(source, x)) * 0.125


def convert(source: random.Random, x: Any, y: Any) -> Any:
    kind = source.choice([jnp.int32, jnp.int8, jnp.bool_, jnp.complex64])
    rounded = jnp.round(x * 4).astype(kind)
    return jnp.real(rounded).astype(jnp.float32)


def loop(source: random.Random, x: Any, y: Any) -> Any:
    kind = source.randrange(3)
    if kind == 0:
        return lax.fori_loop(0, 3, lambda i, z: jnp.tanh(z) + i * 0.25, x)
    if kind == 1:
        return lax.scan(lambda c, row: (c + row, c * 0.5), jnp.zeros(x.shape[1:]), x)[1]
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5 + 1), (0, x))[1]


def branch(source: random.Random, x: Any, y: Any) -> Any:
    condition = jnp.round(jnp.sum(jnp.round(y))) % 2 == 0
    return lax.cond(condition, lambda z: z + 1, lambda z: jnp.flip(z, 0) * 0.5, x)


def convolution(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim != 3:
        return None
    kernel = jnp.ones((x.shape[1], source.choice([1, 2]), 3)[::1]) * 0.25
    kernel = jnp.transpose(kernel, (1, 0, 2))
    return lax.conv_general_dilated(x, kernel, (1,), source.choice(["SAME", [(1, 2)]]))


def window(source: random.Random, x: Any, y: Any) -> Any:
    sizes, strides = [1] * x.ndim, [1] * x.ndim
    d = _axis(source, x)
    sizes[d], strides[d] = min(2, x.shape[d]), source.choice([1, 2])
    how = source.choice([(0.0, lax.add), (-jnp.inf, lax.max)])
    return lax.reduce_window(x, *how, sizes, strides, source.choice(["VALID", "SAME"]))


def top_k(source: random.Random, x: Any, y: Any) -> Any:
    return lax.top_k(x, source.randrange(1, x.shape[-1] + 1))[0]


def transform(source: random.Random, x: Any, y: Any) -> Any:
    return jnp.real(jnp.fft.fft(x, axis=_axis(source, x))) * 0.25


def factors(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim < 2 or x.shape[-1] > 6 or x.shape[-2] > 6:
        return None
    square = jnp.einsum("...ij,...kj->...ik", x, x) * 0.1 + 3 * jnp.eye(x.shape[-2])
    if source.random() < 0.5:
        return jnp.linalg.cholesky(square)
    return jnp.linalg.solve(square, x)


def drawn(source: random.Random, x: Any, y: Any) -> Any:
    return x + jax.random.uniform(jax.random.key(source.randrange(9)), x.shape)


def gradient(source: random.Random, x: Any, y: Any) -> Any:
    function = source.choice(
        [
            lambda z: jnp.sum(jnp.tanh(z) ** 2),
            lambda z: jnp.sum(jnp.cumsum(jnp.sin(z), -1)),
            lambda z: jnp.sum(jax.checkpoint(jnp.sin)(z) * z[::-1]),
        ]
    )
    return jax.grad(function)(x)


def mapped(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim < 2:
        return None
    a, b = source.randrange(2), source.randrange(2)
    return jax.vmap(lambda row: jnp.cumsum(row, 0) + jnp.max(row), a, b)(x)


def repeated(source: random.Random, x: Any, y: Any) -> Any:
    if source.random() < 0.5:
        return jnp.repeat(x, 2, axis=_axis(source, x))
    return jnp.tile(x, 2)


def one_hot(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim == MOST_RANK:
        return None
    return jax.nn.one_hot(jnp.int32(jnp.abs(jnp.round(x * 4))) % 4, 4) * 1.0


def stacked(source: random.Random, x: Any, y: Any) -> Any:
    if x.ndim == MOST_RANK:
        return None
    return jnp.stack([x, x + 1], _axis(source, x))


def segments(source: random.Random, x: Any, y: Any) -> Any:
    numbers = jnp.array([source.randrange(3) for _ in range(x.shape[0])])
    return jax.ops.segment_sum(x, numbers, 3)


def split(source: random.Random, x: Any, y: Any) -> Any:
    d = _axis(source, x)
    parts = [k for k in (2, 3, 4) if x.shape[d] % k == 0]
    if not parts:
        return None
    pieces: Sequence[Any] = jnp.split(x, source.choice(parts), d)
    return pieces[0] - pieces[-1]


def outer(source: random.Random, x: Any, y: Any) -> Any:
    return jnp.multiply.outer(x, y) if x.ndim + y.ndim <= MOST_RANK else None


def weighted(source: random.Random, x: Any, y: Any) -> Any:
    return jax.nn.softmax(x, _axis(source, x))


def triangle(source: random.Random, x: Any, y: Any) -> Any:
    return jnp.tril(x, source.randrange(-1, 2)) if x.ndim > 1 else None


MAKERS: dict[str, Maker] = {
    function.__name__: function
    for function in (
        *(unary, binary, product, batched_product, reduction, arg_reduction, transpose, reshape),
        *(broadcast, cut, moving_cut, moving_update, concatenate, pad, turn, gather),
        *(gather_by_value, scatter, sort, running_sum, choice, iota, convert, loop, branch),
        *(convolution, window, top_k, transform, factors, drawn, gradient, mapped, repeated),
        *(one_hot, stacked, segments, split, outer, weighted, triangle),
    )
}
