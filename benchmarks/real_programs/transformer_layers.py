"""A transformer whose layers are a scan with `jax.checkpoint`, trained with Adam by hand."""

from functools import partial

import jax
import jax.numpy as jnp

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 6, 128, 4, 128, 8, 512


def layer(x, weights):
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    q, k, v = jnp.split(norm(x) @ weights["qkv"], 3, -1)
    q, k, v = (y.reshape(*y.shape[:2], HEADS, -1) for y in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(seen, scores, -1e9)), v)
    x = x + mixed.reshape(x.shape) @ weights["out"]
    return x + jax.nn.gelu(norm(x) @ weights["up"]) @ weights["down"]


def loss(params, words):
    x = params["embedding"][words[:, :-1]]
    body = jax.checkpoint(lambda x, weights: (layer(x, weights), None))
    x, _ = jax.lax.scan(body, x, params["layers"])
    scores = jax.nn.log_softmax(x @ params["embedding"].T)
    return -jnp.take_along_axis(scores, words[:, 1:, None], -1).mean()


@partial(jax.jit, donate_argnums=(0, 1, 2))
def step(params, first, second, words, count):
    value, grads = jax.value_and_grad(loss)(params, words)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
    far, near = 1 - 0.9**count, 1 - 0.999**count
    params = jax.tree.map(
        lambda p, m, v: p - 1e-3 * (m / far) / (jnp.sqrt(v / near) + 1e-8), params, first, second
    )
    return params, first, second, value


def arguments():
    """Return weights, their two moments, and the words of one batch."""
    sizes = {"qkv": 3, "out": 1, "up": 4}
    keys = iter(jax.random.split(jax.random.key(0), 6))

    def made(*sizes):
        return jax.random.normal(next(keys), sizes) * 0.02

    layers = {name: made(LAYERS, WIDTH, count * WIDTH) for name, count in sizes.items()}
    layers["down"] = made(LAYERS, 4 * WIDTH, WIDTH)
    params = {"embedding": made(WORDS, WIDTH), "layers": layers}
    zeros = jax.tree.map(jnp.zeros_like, params)
    words = jax.random.randint(next(keys), (BATCH, LENGTH + 1), 0, WORDS)
    return params, zeros, zeros, words, 1.0


def run(params, first, second, words, count):
    """Return the losses of 10 steps, which do not take the arrays that are given."""
    params, first, second = jax.tree.map(jnp.copy, (params, first, second))
    losses = []
    for number in range(10):
        params, first, second, value = step(params, first, second, words, count + number)
        losses.append(value)
    return [float(x) for x in losses]
