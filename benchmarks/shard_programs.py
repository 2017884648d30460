"""JAX programs whose arguments are divided over devices, and divisions of them by hand.

Each program is made at two scales: one that the evaluator runs, and one whose times and bytes are
those of models. Of each there is the forward pass, and a step of training with momentum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp

Tree = Any


@dataclass(frozen=True)
class Sizes:
    """The sizes of a program: batch, length, width, hidden width, heads, layers, vocabulary."""

    batch: int
    length: int
    width: int
    hidden: int
    heads: int
    layers: int
    words: int
    experts: int = 8
    image: int = 16
    channels: int = 16


SMALL: Final = Sizes(8, 8, 16, 32, 8, 2, 32)
LARGE: Final = Sizes(64, 256, 1024, 4096, 16, 2, 8192, image=64, channels=128)


@dataclass(frozen=True)
class Program:
    """A program: its parameters and data as shapes, and the loss of both."""

    name: str
    params: Tree
    data: Tree
    forward: Callable[[Tree, Tree], Any]
    loss: Callable[[Tree, Tree], Any]

    def lowered(self, *, train: bool) -> Any:
        """Return what `jax.jit` makes of the forward pass, or of a step that donates its state."""
        if not train:
            return jax.jit(self.forward).lower(self.params, self.data)

        def step(params: Tree, momentum: Tree, data: Tree) -> Any:
            value, gradient = jax.value_and_grad(self.loss)(params, data)
            momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
            params = jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum)
            return params, momentum, value

        jitted = jax.jit(step, donate_argnums=(0, 1))
        return jitted.lower(self.params, self.params, self.data)


def array(*sizes: int, dtype: Any = jnp.float32) -> Any:
    """Return the shape of an array."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def whole_numbers(*sizes: int) -> Any:
    """Return the shape of an array of indices."""
    return array(*sizes, dtype=jnp.int32)


def norm(x: Any, scale: Any) -> Any:
    """Return rows of equal length."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def entropy(logits: Any, labels: Any) -> Any:
    """Return the mean cross entropy."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -jnp.mean(chosen)


def mlp(s: Sizes) -> Program:
    """Return layers of products, with biases."""
    shapes = [(s.width, s.hidden), (s.hidden, s.hidden), (s.hidden, s.width)]
    params = [{"w": array(a, b), "b": array(b)} for a, b in shapes]
    rows = s.batch * s.length
    data = {"x": array(rows, s.width), "y": array(rows, s.width)}

    def forward(params: Tree, data: Tree) -> Any:
        x = data["x"]
        for own in params[:-1]:
            x = jax.nn.relu(x @ own["w"] + own["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    def loss(params: Tree, data: Tree) -> Any:
        return jnp.mean((forward(params, data) - data["y"]) ** 2)

    return Program("mlp", params, data, forward, loss)


def block_params(s: Sizes) -> Tree:
    """Return the shapes of one layer of a transformer."""
    depth = s.width // s.heads
    return {
        "query": array(s.width, s.heads, depth),
        "key": array(s.width, s.heads, depth),
        "value": array(s.width, s.heads, depth),
        "out": array(s.heads, depth, s.width),
        "up": array(s.width, s.hidden),
        "down": array(s.hidden, s.width),
        "norm1": array(s.width),
        "norm2": array(s.width),
    }


def attention(own: Tree, x: Any, *, causal: bool) -> Any:
    """Return attention over rows."""
    h = norm(x, own["norm1"])
    query = jnp.einsum("bld,dhk->bhlk", h, own["query"])
    key = jnp.einsum("bld,dhk->bhlk", h, own["key"])
    value = jnp.einsum("bld,dhk->bhlk", h, own["value"])
    scores = jnp.einsum("bhlk,bhmk->bhlm", query, key) / query.shape[-1] ** 0.5
    if causal:
        length = x.shape[1]
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhlm,bhmk->bhlk", jax.nn.softmax(scores), value)
    return x + jnp.einsum("bhlk,hkd->bld", mixed, own["out"])


def block(own: Tree, x: Any, *, causal: bool) -> Any:
    """Return one layer of a transformer."""
    x = attention(own, x, causal=causal)
    return x + jax.nn.gelu(norm(x, own["norm2"]) @ own["up"]) @ own["down"]


def transformer(s: Sizes) -> Program:
    """Return a language model with its layers written out."""
    params = {
        "embedding": array(s.words, s.width),
        "layers": [block_params(s) for _ in range(s.layers)],
        "head": array(s.width, s.words),
    }
    data = {"tokens": whole_numbers(s.batch, s.length), "labels": whole_numbers(s.batch, s.length)}

    def forward(params: Tree, data: Tree) -> Any:
        x = params["embedding"][data["tokens"]]
        for own in params["layers"]:
            x = block(own, x, causal=True)
        return x @ params["head"]

    def loss(params: Tree, data: Tree) -> Any:
        return entropy(forward(params, data), data["labels"])

    return Program("transformer", params, data, forward, loss)


def scan(s: Sizes) -> Program:
    """Return a transformer whose layers a loop goes through, with their weights in stacks."""
    one = block_params(s)
    params = {
        "embedding": array(s.words, s.width),
        "layers": jax.tree.map(lambda x: array(2 * s.layers, *x.shape), one),
        "head": array(s.width, s.words),
    }
    data = transformer(s).data

    def forward(params: Tree, data: Tree) -> Any:
        x = params["embedding"][data["tokens"]]

        @jax.checkpoint
        def layer(x: Any, own: Tree) -> tuple[Any, None]:
            return block(own, x, causal=True), None

        x, _ = jax.lax.scan(layer, x, params["layers"])
        return x @ params["head"]

    def loss(params: Tree, data: Tree) -> Any:
        return entropy(forward(params, data), data["labels"])

    return Program("scan", params, data, forward, loss)


def mixture(s: Sizes) -> Program:
    """Return layers of experts, each of which works on all rows by their share in it."""
    own = {
        "gate": array(s.width, s.experts),
        "up": array(s.experts, s.width, s.hidden // 4),
        "down": array(s.experts, s.hidden // 4, s.width),
    }
    params = [own for _ in range(s.layers)]
    data = {"x": array(s.batch, s.length, s.width), "y": array(s.batch, s.length, s.width)}

    def forward(params: Tree, data: Tree) -> Any:
        x = data["x"]
        for own in params:
            share = jax.nn.softmax(x @ own["gate"])
            hidden = jax.nn.relu(jnp.einsum("bld,edf->eblf", x, own["up"]))
            x = x + jnp.einsum("eblf,efd,ble->bld", hidden, own["down"], share)
        return x

    def loss(params: Tree, data: Tree) -> Any:
        return jnp.mean((forward(params, data) - data["y"]) ** 2)

    return Program("moe", params, data, forward, loss)


def vision(s: Sizes) -> Program:
    """Return a transformer over patches of images."""
    patch = s.image // 4
    params = {
        "patches": array(patch * patch * 3, s.width),
        "positions": array(16, s.width),
        "layers": [block_params(s) for _ in range(s.layers)],
        "head": array(s.width, s.words),
    }
    data = {"images": array(s.batch, s.image, s.image, 3), "labels": whole_numbers(s.batch)}

    def forward(params: Tree, data: Tree) -> Any:
        x = data["images"].reshape(-1, 4, patch, 4, patch, 3).transpose(0, 1, 3, 2, 4, 5)
        x = x.reshape(x.shape[0], 16, -1) @ params["patches"] + params["positions"]
        for own in params["layers"]:
            x = block(own, x, causal=False)
        return jnp.mean(x, 1) @ params["head"]

    def loss(params: Tree, data: Tree) -> Any:
        return entropy(forward(params, data), data["labels"])

    return Program("vit", params, data, forward, loss)


def residual(s: Sizes) -> Program:
    """Return convolutions with what they add to."""
    c = s.channels
    params = {
        "stem": array(3, 3, 3, c),
        "blocks": [
            {"first": array(3, 3, c, c), "second": array(3, 3, c, c), "scale": array(c)}
            for _ in range(s.layers)
        ],
        "head": array(c, s.words),
    }
    data = vision(s).data

    def convolved(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def forward(params: Tree, data: Tree) -> Any:
        x = convolved(data["images"], params["stem"])
        for own in params["blocks"]:
            h = jax.nn.relu(convolved(x, own["first"]))
            x = jax.nn.relu(x + own["scale"] * convolved(h, own["second"]))
        return jnp.mean(x, (1, 2)) @ params["head"]

    def loss(params: Tree, data: Tree) -> Any:
        return entropy(forward(params, data), data["labels"])

    return Program("resnet", params, data, forward, loss)


PROGRAMS: Final[dict[str, Callable[[Sizes], Program]]] = {
    "mlp": mlp,
    "transformer": transformer,
    "moe": mixture,
    "vit": vision,
    "resnet": residual,
    "scan": scan,
}

# -- by hand --------------------------------------------------------------------------------------

_TENSORS: Final = (
    (r"\['(query|key|value)'\]$", -2),
    (r"\['out'\]$", -3),
    (r"\['(up|head|second)'\]$", -1),
    (r"\['(down|embedding)'\]$", -2),
    (r"\['first'\]$", -1),
    (r"\[0\]\['w'\]$", -1),
    (r"\[0\]\['b'\]$", -1),
    (r"\[1\]\['w'\]$", -2),
)
"""Weights by the ends of their names, and the dimension that tensor parallelism splits, from the
end. Of two products in a row it is the result of the first that is split."""


def tensor_dimension(name: str, sizes: Sequence[int]) -> int | None:
    """Return the dimension of a weight that tensor parallelism splits, None for whole ones."""
    for pattern, dimension in _TENSORS:
        if re.search(pattern, name):
            is_second = "second" in name
            return len(sizes) + (-2 if is_second else dimension)
    return None


Dealt = tuple[tuple[int, ...], ...]
"""The axes that split each dimension of an array."""


def by_hand(
    names: Sequence[str], sizes: Sequence[Sequence[int]], mesh: Sequence[int], how: str
) -> tuple[Dealt, ...]:
    """Return a division by hand: "data", "fully", "tensor", "2d" or "2d fully".

    In two dimensions the first axis splits the data and the others the tensors.
    """
    axes = tuple(range(len(mesh)))
    data = axes if how in ("data", "fully") else axes[:1] if how.startswith("2d") else ()
    tensor = axes if how == "tensor" else axes[1:] if how.startswith("2d") else ()
    found = []
    for name, own in zip(names, sizes, strict=True):
        dealt = [()] * len(own)
        at = tensor_dimension(name, own)
        if name.startswith("data"):
            _deal(dealt, own, mesh, 0, data)
        elif at is not None:
            _deal(dealt, own, mesh, at, tensor)
        if how in ("fully", "2d fully") and not name.startswith("data"):
            for dimension in sorted(range(len(own)), key=lambda d: -own[d]):
                if _deal(dealt, own, mesh, dimension, data):
                    break
        found.append(tuple(dealt))
    return tuple(found)


def _deal(
    dealt: list[tuple[int, ...]],
    sizes: Sequence[int],
    mesh: Sequence[int],
    dimension: int,
    axes: tuple[int, ...],
) -> bool:
    """Give axes to a dimension, where they divide it; return whether they do."""
    longer = tuple(sorted((*dealt[dimension], *axes)))
    if not axes or sizes[dimension] % math.prod([mesh[axis] for axis in longer]):
        return False
    dealt[dimension] = longer
    return True
