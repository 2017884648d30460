"""Programs in JAX whose source changes as what-if says: by names of changes in `WRITTEN`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WRITTEN: Final[set[str]] = set()
"""The changes that the source is to have, such as `checkpoint:block`."""

Program = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, and the shapes that it is traced with."""


def made_again(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or a checkpoint of it where that is to be written."""
    changed = f"checkpoint:{function.__name__}" in WRITTEN
    return jax.checkpoint(function) if changed else function


def scan(body: Callable[..., Any], start: Any, xs: Any) -> Any:
    """The state after a loop over `xs`, in the form that is to be written."""
    body = jax.checkpoint(body) if "checkpoint:loops" in WRITTEN else body
    if "segments" not in WRITTEN:
        return lax.scan(body, start, xs)[0]
    part = jax.checkpoint(lambda state, some: lax.scan(body, state, some))
    return lax.scan(part, start, jax.tree.map(lambda x: x.reshape(4, -1, *x.shape[1:]), xs))[0]


def spec(*sizes: int, dtype: Any = np.float32) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)


def descend(params: Any, gradient: Any) -> Any:
    return jax.tree.map(lambda x, g: x - 0.1 * g, params, gradient)


def norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def dense(x: Any, w: Any) -> Any:
    """A layer of the perceptron."""
    return jax.nn.gelu(x @ w)


def perceptron(params: Any, x: Any) -> Any:
    """Three layers, applied."""
    for w in params:
        x = made_again(dense)(x, w)
    return x


_LAYERS = [spec(48, 160), spec(160, 160), spec(160, 12)]


def momentum_step(params: Any, velocity: Any, x: Any, y: Any) -> Any:
    """A step of training with a state beside the parameters."""
    value, gradient = jax.value_and_grad(lambda p: ((perceptron(p, x) - y) ** 2).mean())(params)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, gradient)
    return jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity), velocity, value


def attention(x: Any, w: Any) -> Any:
    """Attention of one head."""
    q, k, v = jnp.split(x @ w["qkv"], 3, -1)
    return jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k)) @ v @ w["out"]


def block(x: Any, w: Any) -> Any:
    """A layer of a transformer."""
    x = x + made_again(attention)(norm(x), w)
    return x + jax.nn.gelu(norm(x) @ w["wide"]) @ w["narrow"]


_BLOCK = {"qkv": spec(32, 96), "out": spec(32, 32), "wide": spec(32, 128), "narrow": spec(128, 32)}


def patches(params: Any, images: Any) -> Any:
    """A small vision transformer, applied."""
    count = len(images)
    x = images.reshape(count, 6, 4, 6, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(count, 36, 48)
    x = x @ params["patch"]
    for w in params["blocks"]:
        x = made_again(block)(x, w)
    return x.mean(1) @ params["head"]


_PATCHES = {"patch": spec(48, 32), "blocks": [_BLOCK] * 2, "head": spec(32, 10)}


def entropy(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def patches_step(params: Any, images: Any, labels: Any) -> Any:
    """A step of training the vision transformer."""
    loss = lambda p: entropy(made_again(patches)(p, images), labels)  # noqa: E731
    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


def convolve(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def stage(x: Any, w: Any) -> Any:
    """Two convolutions with a way past them."""
    own = made_again(convolve)
    return jax.nn.relu(own(jax.nn.relu(norm(own(x, w[0]))), w[1]) + x)


def convolutions(params: Any, images: Any) -> Any:
    """A small residual network, applied."""
    x = made_again(convolve)(images, params["stem"])
    for w in params["stages"]:
        x = made_again(stage)(x, w)
    return x.mean((1, 2)) @ params["head"]


_CONVOLUTIONS = {
    "stem": spec(3, 3, 3, 16),
    "stages": [[spec(3, 3, 16, 16)] * 2] * 2,
    "head": spec(16, 10),
}


def convolutions_step(params: Any, images: Any, labels: Any) -> Any:
    """A step of training the residual network."""
    loss = lambda p: entropy(made_again(convolutions)(p, images), labels)  # noqa: E731
    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


def recurrent_step(params: Any, series: Any, target: Any) -> Any:
    """A step of training a loop over time."""

    def loss(p: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            gate = jax.nn.sigmoid(x @ p["gate_x"] + h @ p["gate_h"])
            return gate * h + (1 - gate) * jnp.tanh(x @ p["x"] + h @ p["h"]), None

        h = scan(cell, jnp.zeros((series.shape[1], 32)), series)
        return ((h - target) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


_RECURRENT = {"gate_x": spec(16, 32), "gate_h": spec(32, 32), "x": spec(16, 32), "h": spec(32, 32)}


def language_step(params: Any, tokens: Any) -> Any:
    """A step of training a transformer whose layers are a loop."""

    def loss(p: Any) -> Any:
        x = scan(lambda x, w: (block(x, w), None), p["embed"][tokens[:, :-1]], p["blocks"])
        return entropy(x @ p["embed"].T, tokens[:, 1:])

    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


_LANGUAGE = {"embed": spec(100, 32), "blocks": jax.tree.map(lambda x: spec(4, *x.shape), _BLOCK)}


def tower(params: Any, x: Any) -> Any:
    """One of two models whose results are compared."""
    for w in params:
        x = jnp.tanh(x @ w)
    return x * lax.rsqrt((x**2).sum(-1, keepdims=True) + 1e-6)


def contrast_step(params: Any, images: Any, texts: Any) -> Any:
    """A step of training two models, in which each example is compared with all others."""

    def loss(p: Any) -> Any:
        close = made_again(tower)(p["image"], images) @ made_again(tower)(p["text"], texts).T
        own = jnp.arange(len(images))
        return entropy(close, own) + entropy(close.T, own)

    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


_TOWERS = {"image": [spec(80, 64), spec(64, 32)], "text": [spec(40, 64), spec(64, 32)]}


def cached(params: Any, cache: Any, x: Any) -> Any:
    """A step of decoding, which writes into the cache that it was given."""
    keys = cache["keys"].at[:, -1].set(x @ params["k"])
    values = cache["values"].at[:, -1].set(x @ params["v"])
    weights = jax.nn.softmax(jnp.einsum("bd,bnd->bn", x @ params["q"], keys))
    return jnp.einsum("bn,bnd->bd", weights, values), {"keys": keys, "values": values}


def nearest(points: Any, centers: Any) -> Any:
    """Each point drawn to the centers, as many numbers as there were."""
    far = ((points[:, None] - centers[None]) ** 2).sum(-1)
    return jax.nn.softmax(-far) @ centers


def programs(batch: int) -> dict[str, Program]:
    """Return the programs for so many examples, by name."""
    labels = spec(batch, dtype=np.int32)
    images = spec(batch, 24, 24, 3)
    cache = {name: spec(batch, 48, 32) for name in ("keys", "values")}
    many = 8 * batch
    return {
        "perceptron": (perceptron, (_LAYERS, spec(many, 48))),
        "momentum": (momentum_step, (_LAYERS, _LAYERS, spec(many, 48), spec(many, 12))),
        "patches": (patches, (_PATCHES, images)),
        "patches training": (patches_step, (_PATCHES, images, labels)),
        "convolutions": (convolutions, (_CONVOLUTIONS, images)),
        "convolutions training": (convolutions_step, (_CONVOLUTIONS, images, labels)),
        "recurrent": (recurrent_step, (_RECURRENT, spec(64, batch, 16), spec(batch, 32))),
        "language": (language_step, (_LANGUAGE, spec(batch, 25, dtype=np.int32))),
        "contrast": (contrast_step, (_TOWERS, spec(many, 80), spec(many, 40))),
        "cache": (cached, ({x: spec(32, 32) for x in "qkv"}, cache, spec(batch, 32))),
        "nearest": (nearest, (spec(64 * batch, 8), spec(48, 8))),
    }
