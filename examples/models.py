"""Models in plain JAX, whose lowered programs lie beside this file.

Each entry of `MODELS` returns a function, the shapes of its arguments and the numbers of the
arguments it may overwrite. Nothing is allocated here: `jax.jit(function).lower(*specs)` needs
only shapes. The `init_*` functions draw real weights, for whoever wants to run a model.

Every model can run in 4 GB, for its arguments, results and temporaries together, if its program
is scheduled with care for memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

Tree = Any
"""Arrays in nested dictionaries and lists."""


class Example(NamedTuple):
    """A function to compile, the shapes it takes and the arguments it may overwrite."""

    function: Callable[..., Any]
    specs: tuple[Tree, ...]
    donate_argnums: tuple[int, ...]


class Weights:
    """Draws initial weights, each from a random key of its own."""

    def __init__(self, key: Array, dtype: Any = jnp.float32) -> None:
        """Starts from `key`; every array it gives has the type `dtype`."""
        self.key = key
        self.dtype = dtype

    def normal(self, *shape: int, scale: float | None = None) -> Array:
        """Draws normal numbers, by default scaled so that a layer keeps its input's variance."""
        self.key, key = jax.random.split(self.key)
        scale = math.prod(shape[:-1]) ** -0.5 if scale is None else scale
        return scale * jax.random.normal(key, shape, self.dtype)

    def zeros(self, *shape: int) -> Array:
        """Makes an array of zeros."""
        return jnp.zeros(shape, self.dtype)

    def ones(self, *shape: int) -> Array:
        """Makes an array of ones."""
        return jnp.ones(shape, self.dtype)

    def dense(self, inputs: int, outputs: int, scale: float | None = None) -> Tree:
        """Draws the kernel and bias of a dense layer."""
        return {"kernel": self.normal(inputs, outputs, scale=scale), "bias": self.zeros(outputs)}

    def conv(self, size: int, inputs: int, outputs: int) -> Tree:
        """Draws the kernel and bias of a square convolution."""
        return {"kernel": self.normal(size, size, inputs, outputs), "bias": self.zeros(outputs)}

    def norm(self, width: int) -> Tree:
        """Makes the scale and bias of a normalisation layer."""
        return {"scale": self.ones(width), "bias": self.zeros(width)}


def spec(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Describes an array by its shape and type alone."""
    return jax.ShapeDtypeStruct(shape, dtype)


def specs_of(init: Callable[..., Tree], *args: Any) -> Tree:
    """Finds the shapes that `init(key, *args)` would give, without computing them."""
    return jax.eval_shape(lambda: init(jax.random.key(0), *args))


# Layers.


def dense(x: Array, params: Tree) -> Array:
    """Multiplies by a matrix and adds a bias."""
    return x @ params["kernel"] + params["bias"]


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    """Slides `kernel` over an image batch laid out as batch, height, width, channels."""
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def conv(x: Array, params: Tree, stride: int = 1) -> Array:
    """Convolves and adds a bias."""
    return convolve(x, params["kernel"], stride) + params["bias"]


def max_pool(x: Array, size: int, stride: int) -> Array:
    """Takes the largest value of each window of `size` by `size` pixels."""
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")


def layer_norm(x: Array, params: Tree) -> Array:
    """Normalises the last axis to mean zero and variance one, then scales and shifts it."""
    x = x - x.mean(axis=-1, keepdims=True)
    x = x * lax.rsqrt(jnp.square(x).mean(axis=-1, keepdims=True) + 1e-5)
    return x * params["scale"] + params["bias"]


def group_norm(x: Array, params: Tree, groups: int = 32) -> Array:
    """Normalises each group of channels over the whole image, then scales and shifts it."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, groups, channels // groups)
    x = x - x.mean(axis=(1, 2, 4), keepdims=True)
    x = x * lax.rsqrt(jnp.square(x).mean(axis=(1, 2, 4), keepdims=True) + 1e-5)
    return x.reshape(batch, height, width, channels) * params["scale"] + params["bias"]


def attention(x: Array, params: Tree, heads: int, causal: bool = False) -> Array:
    """Mixes the positions of a [batch, time, width] sequence by multi-head self-attention."""
    batch, time, width = x.shape
    qkv = dense(x, params["qkv"]).reshape(batch, time, 3, heads, width // heads)
    query, key, value = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (width // heads) ** -0.5
    if causal:
        # Made from two iotas, so that no large constant enters the program.
        past = jnp.arange(time)[:, None] >= jnp.arange(time)
        scores = jnp.where(past, scores, -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return dense(mixed.reshape(batch, time, width), params["out"])


def transformer_block(x: Array, params: Tree, heads: int, causal: bool = False) -> Array:
    """Adds attention and then a two-layer perceptron to the residual stream."""
    x = x + attention(layer_norm(x, params["norm1"]), params["attention"], heads, causal)
    hidden = dense(layer_norm(x, params["norm2"]), params["up"])
    # GPT-2 was trained with the tanh form of GELU, the vision transformer with the exact one.
    return x + dense(jax.nn.gelu(hidden, approximate=causal), params["down"])


def init_attention(weights: Weights, width: int) -> Tree:
    """Draws the weights of `attention`."""
    return {
        "qkv": weights.dense(width, 3 * width, scale=0.02),
        "out": weights.dense(width, width, scale=0.02),
    }


def init_transformer_block(weights: Weights, width: int) -> Tree:
    """Draws the weights of `transformer_block`."""
    return {
        "norm1": weights.norm(width),
        "attention": init_attention(weights, width),
        "norm2": weights.norm(width),
        "up": weights.dense(width, 4 * width, scale=0.02),
        "down": weights.dense(4 * width, width, scale=0.02),
    }


# Losses and optimizers.


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Averages the negative log-probability that `logits` give to the right labels."""
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probs, labels[..., None], axis=-1).mean()


def sgd(params: Tree, velocity: Tree, grads: Tree, rate: float) -> tuple[Tree, Tree]:
    """Steps downhill with momentum; returns the new weights and velocities."""

    def accumulate(velocity: Array, grad: Array) -> Array:
        return 0.9 * velocity + grad

    def move(param: Array, velocity: Array) -> Array:
        return param - rate * velocity

    velocity = jax.tree.map(accumulate, velocity, grads)
    return jax.tree.map(move, params, velocity), velocity


def init_adam(params: Tree) -> Tree:
    """Makes the optimizer state of `adam`: no steps taken, both moments zero."""
    return {
        "count": jnp.zeros((), jnp.int32),
        "mean": jax.tree.map(jnp.zeros_like, params),
        "square": jax.tree.map(jnp.zeros_like, params),
    }


def adam(params: Tree, state: Tree, grads: Tree, rate: float) -> tuple[Tree, Tree]:
    """Takes one step of Adam; returns the new weights and optimizer state."""
    count = state["count"] + 1
    mean_bias = 1 - 0.9 ** count.astype(jnp.float32)
    square_bias = 1 - 0.999 ** count.astype(jnp.float32)

    def average(mean: Array, grad: Array) -> Array:
        return 0.9 * mean + 0.1 * grad

    def average_square(square: Array, grad: Array) -> Array:
        return 0.999 * square + 0.001 * jnp.square(grad)

    def move(param: Array, mean: Array, square: Array) -> Array:
        return param - rate * (mean / mean_bias) / (jnp.sqrt(square / square_bias) + 1e-8)

    mean = jax.tree.map(average, state["mean"], grads)
    square = jax.tree.map(average_square, state["square"], grads)
    params = jax.tree.map(move, params, mean, square)
    return params, {"count": count, "mean": mean, "square": square}


# A perceptron: the smallest example.


def init_mlp(key: Array) -> Tree:
    """Draws the weights of `mlp`."""
    weights = Weights(key)
    return {"hidden": weights.dense(784, 128), "out": weights.dense(128, 10)}


def mlp(params: Tree, images: Array) -> Array:
    """Classifies flat 28 by 28 images with one hidden layer; returns log-probabilities."""
    hidden = jax.nn.relu(dense(images, params["hidden"]))
    return jax.nn.log_softmax(dense(hidden, params["out"]))


def mlp_inference(batch: int = 8) -> Example:
    """Describes the inference of a 784-128-10 perceptron."""
    return Example(mlp, (specs_of(init_mlp), spec(batch, 784)), ())


# A small convolutional network for handwritten digits.


def init_cnn(key: Array) -> Tree:
    """Draws the weights of `cnn`."""
    weights = Weights(key)
    return {
        "conv1": weights.conv(3, 1, 16),
        "conv2": weights.conv(3, 16, 32),
        "hidden": weights.dense(7 * 7 * 32, 64),
        "out": weights.dense(64, 10),
    }


def cnn(params: Tree, images: Array) -> Array:
    """Classifies 28 by 28 images with two convolutions and two dense layers."""
    x = max_pool(jax.nn.relu(conv(images, params["conv1"])), size=2, stride=2)
    x = max_pool(jax.nn.relu(conv(x, params["conv2"])), size=2, stride=2)
    x = jax.nn.relu(dense(x.reshape(x.shape[0], -1), params["hidden"]))
    return dense(x, params["out"])


def cnn_step(params: Tree, velocity: Tree, images: Array, labels: Array) -> tuple[Tree, ...]:
    """Trains `cnn` on one batch by gradient descent with momentum."""

    def loss_of(params: Tree) -> Array:
        return cross_entropy(cnn(params, images), labels)

    loss, grads = jax.value_and_grad(loss_of)(params)
    params, velocity = sgd(params, velocity, grads, rate=0.01)
    return params, velocity, loss


def mnist_cnn_train(batch: int = 32) -> Example:
    """Describes a training step of a two-convolution digit classifier."""
    params = specs_of(init_cnn)
    images, labels = spec(batch, 28, 28, 1), spec(batch, dtype=jnp.int32)
    return Example(cnn_step, (params, params, images, labels), (0, 1))


# ResNet-50.

RESNET50_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""The number of blocks of each stage, and the width inside them."""


def init_conv_bn(weights: Weights, size: int, inputs: int, outputs: int) -> Tree:
    """Draws the weights of `conv_bn`."""
    return {"kernel": weights.normal(size, size, inputs, outputs), **weights.norm(outputs)}


def conv_bn(x: Array, params: Tree, stats: Tree, stride: int = 1) -> tuple[Array, Tree]:
    """Convolves and normalises over the batch; returns the running statistics as well."""
    x = convolve(x, params["kernel"], stride)
    mean = x.mean(axis=(0, 1, 2))
    variance = jnp.square(x).mean(axis=(0, 1, 2)) - jnp.square(mean)
    # One multiplication and one addition per value: backward needs no more than `x` itself.
    scale = params["scale"] * lax.rsqrt(variance + 1e-5)
    stats = {
        "mean": 0.9 * stats["mean"] + 0.1 * lax.stop_gradient(mean),
        "variance": 0.9 * stats["variance"] + 0.1 * lax.stop_gradient(variance),
    }
    return x * scale + (params["bias"] - mean * scale), stats


def bottleneck(x: Array, params: Tree, stats: Tree, stride: int) -> tuple[Array, Tree]:
    """Adds to `x` what a narrow, a spatial and a wide convolution make of it."""
    new = {}
    y, new["conv1"] = conv_bn(x, params["conv1"], stats["conv1"])
    y, new["conv2"] = conv_bn(jax.nn.relu(y), params["conv2"], stats["conv2"], stride)
    y, new["conv3"] = conv_bn(jax.nn.relu(y), params["conv3"], stats["conv3"])
    if "shortcut" in params:
        x, new["shortcut"] = conv_bn(x, params["shortcut"], stats["shortcut"], stride)
    return jax.nn.relu(x + y), new


def init_resnet50(key: Array) -> Tree:
    """Draws the weights of `resnet50`."""
    weights = Weights(key)
    params: Tree = {"stem": init_conv_bn(weights, 7, 3, 64), "blocks": []}
    inputs = 64
    for blocks, width in RESNET50_STAGES:
        for block in range(blocks):
            layers = {
                "conv1": init_conv_bn(weights, 1, inputs, width),
                "conv2": init_conv_bn(weights, 3, width, width),
                "conv3": init_conv_bn(weights, 1, width, 4 * width),
            }
            # A block starts as the identity, so that training is stable (Goyal and others, 2017).
            layers["conv3"]["scale"] = weights.zeros(4 * width)
            if block == 0:
                layers["shortcut"] = init_conv_bn(weights, 1, inputs, 4 * width)
            params["blocks"].append(layers)
            inputs = 4 * width
    params["head"] = weights.dense(inputs, 1000)
    return params


def init_resnet50_stats(params: Tree) -> Tree:
    """Makes the running statistics that belong to the weights `params`."""
    if isinstance(params, list):
        return [init_resnet50_stats(block) for block in params]
    if "kernel" not in params:
        return {name: init_resnet50_stats(p) for name, p in params.items() if name != "head"}
    return {"mean": jnp.zeros_like(params["bias"]), "variance": jnp.ones_like(params["bias"])}


def resnet50(params: Tree, stats: Tree, images: Array) -> tuple[Array, Tree]:
    """Classifies images; returns the class scores and the new running statistics."""
    new: Tree = {"blocks": []}
    with jax.named_scope("stem"):
        x, new["stem"] = conv_bn(images, params["stem"], stats["stem"], stride=2)
        x = max_pool(jax.nn.relu(x), size=3, stride=2)
    index = 0
    for stage, (blocks, _) in enumerate(RESNET50_STAGES):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            with jax.named_scope(f"stage{stage + 1}_block{block + 1}"):
                layers, old = params["blocks"][index], stats["blocks"][index]
                x, block_stats = bottleneck(x, layers, old, stride)
            new["blocks"].append(block_stats)
            index += 1
    with jax.named_scope("head"):
        return dense(x.mean(axis=(1, 2)), params["head"]), new


def resnet50_step(
    params: Tree, velocity: Tree, stats: Tree, images: Array, labels: Array
) -> tuple[Tree, ...]:
    """Trains `resnet50` on one batch by gradient descent with momentum."""

    def loss_of(params: Tree) -> tuple[Array, Tree]:
        logits, new = resnet50(params, stats, images)
        return cross_entropy(logits, labels), new

    (loss, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
    params, velocity = sgd(params, velocity, grads, rate=0.0125)
    return params, velocity, stats, loss


def resnet50_train(batch: int = 32) -> Example:
    """Describes a training step of ResNet-50 at 224 by 224 pixels."""
    params = specs_of(init_resnet50)
    stats = jax.eval_shape(init_resnet50_stats, params)
    images, labels = spec(batch, 224, 224, 3), spec(batch, dtype=jnp.int32)
    return Example(resnet50_step, (params, params, stats, images, labels), (0, 1, 2))


# GPT-2.


def init_gpt2(key: Array, layers: int, width: int, vocabulary: int, context: int) -> Tree:
    """Draws the weights of `gpt2`."""
    weights = Weights(key)
    return {
        "tokens": weights.normal(vocabulary, width, scale=0.02),
        "positions": weights.normal(context, width, scale=0.01),
        "blocks": [init_transformer_block(weights, width) for _ in range(layers)],
        "norm": weights.norm(width),
    }


def gpt2(params: Tree, tokens: Array, heads: int = 12, remat: bool = False) -> Array:
    """Scores every possible next token after each position of [batch, time] token numbers.

    With `remat`, only the input of each block is kept for the backward pass, which computes the
    rest of the block again: that takes a third more work and much less memory.
    """
    block = jax.checkpoint(transformer_block, static_argnums=(2, 3)) if remat else transformer_block
    with jax.named_scope("embedding"):
        x = params["tokens"][tokens] + params["positions"][: tokens.shape[1]]
    for index, layers in enumerate(params["blocks"]):
        with jax.named_scope(f"block{index}"):
            x = block(x, layers, heads, True)
    with jax.named_scope("head"):
        # The embedding table also serves, transposed, as the last layer.
        return layer_norm(x, params["norm"]) @ params["tokens"].T


def gpt2_step(
    params: Tree, state: Tree, tokens: Array, remat: bool = False
) -> tuple[Tree, Tree, Array]:
    """Trains `gpt2` with Adam to predict each token from those before it."""

    def loss_of(params: Tree) -> Array:
        return cross_entropy(gpt2(params, tokens[:, :-1], remat=remat), tokens[:, 1:])

    loss, grads = jax.value_and_grad(loss_of)(params)
    params, state = adam(params, state, grads, rate=3e-4)
    return params, state, loss


def gpt2_remat_step(params: Tree, state: Tree, tokens: Array) -> tuple[Tree, Tree, Array]:
    """Trains `gpt2` as `gpt2_step` does, but keeps little for the backward pass."""
    return gpt2_step(params, state, tokens, remat=True)


def gpt2_specs(batch: int, time: int) -> tuple[Tree, ...]:
    """Finds the shapes of the arguments of `gpt2_step` for the model of 124 million weights."""
    params = specs_of(init_gpt2, 12, 768, 50257, 1024)
    # One token more than the context: the last one is only predicted.
    tokens = spec(batch, time + 1, dtype=jnp.int32)
    return params, jax.eval_shape(init_adam, params), tokens


def gpt2_train(batch: int = 1, time: int = 1024) -> Example:
    """Describes a training step of GPT-2 with 124 million weights."""
    return Example(gpt2_step, gpt2_specs(batch, time), (0, 1))


def gpt2_remat_train(batch: int = 1, time: int = 1024) -> Example:
    """Describes a training step of GPT-2 that computes every block twice to save memory."""
    return Example(gpt2_remat_step, gpt2_specs(batch, time), (0, 1))


# A Llama-style language model that produces one token at a time.


class LlamaConfig(NamedTuple):
    """The sizes of a Llama-style model; the defaults give 1.1 billion weights."""

    layers: int = 22
    width: int = 2048
    heads: int = 32
    kv_heads: int = 4
    head_width: int = 64
    hidden: int = 5632
    vocabulary: int = 32000
    context: int = 2048


def init_llama(key: Array, config: LlamaConfig) -> Tree:
    """Draws the weights of `llama_decode`; those of all layers are stacked for the scan."""
    weights = Weights(key, jnp.bfloat16)
    layers, width = config.layers, config.width
    queries, keys = config.heads * config.head_width, config.kv_heads * config.head_width
    return {
        "embedding": weights.normal(config.vocabulary, width, scale=0.02),
        "layers": {
            "norm1": weights.ones(layers, width),
            "query": weights.normal(layers, width, queries, scale=0.02),
            "key": weights.normal(layers, width, keys, scale=0.02),
            "value": weights.normal(layers, width, keys, scale=0.02),
            "out": weights.normal(layers, queries, width, scale=0.02),
            "norm2": weights.ones(layers, width),
            "gate": weights.normal(layers, width, config.hidden, scale=0.02),
            "up": weights.normal(layers, width, config.hidden, scale=0.02),
            "down": weights.normal(layers, config.hidden, width, scale=0.02),
        },
        "norm": weights.ones(width),
        "head": weights.normal(width, config.vocabulary, scale=0.02),
    }


def init_llama_cache(batch: int, config: LlamaConfig) -> Tree:
    """Makes an empty cache of the keys and values of every layer."""
    shape = (config.layers, batch, config.kv_heads, config.context, config.head_width)
    return {"key": jnp.zeros(shape, jnp.bfloat16), "value": jnp.zeros(shape, jnp.bfloat16)}


def rms_norm(x: Array, scale: Array) -> Array:
    """Divides the last axis by its root mean square, computed in single precision."""
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt(jnp.square(wide).mean(axis=-1, keepdims=True) + 1e-5)
    return wide.astype(x.dtype) * scale


def rotary(x: Array, position: Array) -> Array:
    """Rotates pairs of features of each head by angles that grow with the position."""
    half = x.shape[-1] // 2
    angle = position * 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    left, right = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)
    return rotated.astype(x.dtype)


def cached_attention(query: Array, keys: Array, values: Array, position: Array) -> Array:
    """Attends to the cached positions up to `position`, several query heads to a key head."""
    batch, kv_heads, context, head_width = keys.shape
    query = query.reshape(batch, kv_heads, -1, head_width)
    scores = jnp.einsum("bhgd,bhtd->bhgt", query, keys, preferred_element_type=jnp.float32)
    scores = jnp.where(jnp.arange(context) <= position, scores * head_width**-0.5, -jnp.inf)
    weights = jax.nn.softmax(scores).astype(values.dtype)
    return jnp.einsum("bhgt,bhtd->bhgd", weights, values).reshape(batch, -1)


def llama_decode(params: Tree, cache: Tree, tokens: Array, position: Array) -> tuple[Array, Tree]:
    """Reads one token of each sequence; returns the scores of the next and the new cache."""
    layers, batch, kv_heads, _, head_width = cache["key"].shape

    def store(cache: Array, new: Array, layer: Array) -> Array:
        return lax.dynamic_update_slice(cache, new[None, :, :, None], (layer, 0, 0, position, 0))

    def llama_layer(carry: tuple[Array, Tree], inputs: tuple[Tree, Array]) -> tuple[Any, None]:
        x, cache = carry
        params, layer = inputs
        y = rms_norm(x, params["norm1"])
        query = rotary((y @ params["query"]).reshape(batch, -1, head_width), position)
        key = rotary((y @ params["key"]).reshape(batch, kv_heads, head_width), position)
        value = (y @ params["value"]).reshape(batch, kv_heads, head_width)
        # The cache is carried whole, so that each layer can write its row in place.
        keys, values = store(cache["key"], key, layer), store(cache["value"], value, layer)
        x = x + cached_attention(query, keys[layer], values[layer], position) @ params["out"]
        y = rms_norm(x, params["norm2"])
        x = x + (jax.nn.silu(y @ params["gate"]) * (y @ params["up"])) @ params["down"]
        return (x, {"key": keys, "value": values}), None

    carry = (params["embedding"][tokens], cache)
    (x, cache), _ = lax.scan(llama_layer, carry, (params["layers"], jnp.arange(layers)))
    x = rms_norm(x, params["norm"])
    return jnp.matmul(x, params["head"], preferred_element_type=jnp.float32), cache


def llama_1b_decode(batch: int = 8) -> Example:
    """Describes one decoding step of a Llama-style model with 1.1 billion weights."""
    config = LlamaConfig()
    params = specs_of(init_llama, config)
    cache = jax.eval_shape(lambda: init_llama_cache(batch, config))
    tokens, position = spec(batch, dtype=jnp.int32), spec(dtype=jnp.int32)
    return Example(llama_decode, (params, cache, tokens, position), (1,))


# A vision transformer.


def init_vit(key: Array, layers: int, width: int, patch: int, patches: int) -> Tree:
    """Draws the weights of `vit`."""
    weights = Weights(key)
    return {
        "patches": weights.conv(patch, 3, width),
        "class": weights.zeros(1, 1, width),
        "positions": weights.normal(1 + patches, width, scale=0.02),
        "blocks": [init_transformer_block(weights, width) for _ in range(layers)],
        "norm": weights.norm(width),
        "head": weights.dense(width, 1000),
    }


def vit(params: Tree, images: Array, heads: int = 12) -> Array:
    """Classifies images by attention between their patches; returns class scores."""
    kernel, bias = params["patches"]["kernel"], params["patches"]["bias"]
    with jax.named_scope("embedding"):
        x = convolve(images, kernel, stride=kernel.shape[0]) + bias
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        first = jnp.broadcast_to(params["class"], (x.shape[0], 1, x.shape[-1]))
        x = jnp.concatenate([first, x], axis=1) + params["positions"]
    for index, block in enumerate(params["blocks"]):
        with jax.named_scope(f"block{index}"):
            x = transformer_block(x, block, heads)
    with jax.named_scope("head"):
        return dense(layer_norm(x[:, 0], params["norm"]), params["head"])


def vit_b16_inference(batch: int = 16) -> Example:
    """Describes the inference of ViT-B/16 at 224 by 224 pixels."""
    params = specs_of(init_vit, 12, 768, 16, 14 * 14)
    return Example(vit, (params, spec(batch, 224, 224, 3)), ())


# A U-Net that learns to remove noise from images.

UNET_WIDTHS = (64, 128, 256)
"""The number of channels at full, half and quarter resolution."""


def init_res_block(weights: Weights, inputs: int, outputs: int, time_width: int) -> Tree:
    """Draws the weights of `res_block`."""
    return {
        "norm1": weights.norm(inputs),
        "conv1": weights.conv(3, inputs, outputs),
        "time": weights.dense(time_width, outputs),
        "norm2": weights.norm(outputs),
        "conv2": weights.conv(3, outputs, outputs),
        **({} if inputs == outputs else {"shortcut": weights.conv(1, inputs, outputs)}),
    }


def init_unet(key: Array, time_width: int = 256) -> Tree:
    """Draws the weights of `unet`: two blocks for each resolution, on the way down and up."""
    weights = Weights(key)
    first, last = UNET_WIDTHS[0], UNET_WIDTHS[-1]
    params: Tree = {
        "time1": weights.dense(first, time_width),
        "time2": weights.dense(time_width, time_width),
        "in": weights.conv(3, 3, first),
        "down": [],
        "middle": {
            "block1": init_res_block(weights, last, last, time_width),
            "norm": weights.norm(last),
            "attention": init_attention(weights, last),
            "block2": init_res_block(weights, last, last, time_width),
        },
        "up": [],
        "norm": weights.norm(first),
        "out": weights.conv(3, first, 3),
    }
    inputs = first
    for width in UNET_WIDTHS:
        level = {
            "block1": init_res_block(weights, inputs, width, time_width),
            "block2": init_res_block(weights, width, width, time_width),
        }
        if width != last:
            level["halve"] = weights.conv(3, width, width)
        params["down"].append(level)
        inputs = width
    for width in reversed(UNET_WIDTHS):
        # Each block on the way up also reads what a block on the way down has left.
        level = {
            "block1": init_res_block(weights, inputs + width, width, time_width),
            "block2": init_res_block(weights, width + width, width, time_width),
        }
        if width != first:
            level["double"] = weights.conv(3, width, width)
        params["up"].append(level)
        inputs = width
    return params


def time_embedding(time: Array, width: int) -> Array:
    """Turns times between 0 and 1 into waves of geometrically spaced frequencies."""
    frequencies = 1000.0 ** jnp.linspace(0.0, 1.0, width // 2)
    angles = time[:, None] * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def res_block(x: Array, time: Array, params: Tree) -> Array:
    """Adds to `x` two convolutions of it, the second one told the time."""
    y = conv(jax.nn.silu(group_norm(x, params["norm1"])), params["conv1"])
    y = y + dense(time, params["time"])[:, None, None]
    y = conv(jax.nn.silu(group_norm(y, params["norm2"])), params["conv2"])
    return y + (conv(x, params["shortcut"]) if "shortcut" in params else x)


def pixel_attention(x: Array, params: Tree, heads: int = 4) -> Array:
    """Adds to `x` attention between all its pixels."""
    batch, height, width, channels = x.shape
    y = group_norm(x, params["norm"]).reshape(batch, height * width, channels)
    return x + attention(y, params["attention"], heads).reshape(x.shape)


def double(x: Array) -> Array:
    """Repeats every pixel twice in height and in width."""
    batch, height, width, channels = x.shape
    x = jnp.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    return x.reshape(batch, 2 * height, 2 * width, channels)


def unet(params: Tree, images: Array, time: Array) -> Array:
    """Predicts the noise in images that have been noised up to `time`."""
    with jax.named_scope("time"):
        time = dense(time_embedding(time, UNET_WIDTHS[0]), params["time1"])
        time = jax.nn.silu(dense(jax.nn.silu(time), params["time2"]))
    x = conv(images, params["in"])
    left = []
    for index, level in enumerate(params["down"]):
        with jax.named_scope(f"down{index}"):
            for name in ("block1", "block2"):
                x = res_block(x, time, level[name])
                left.append(x)
            if "halve" in level:
                x = conv(x, level["halve"], stride=2)
    with jax.named_scope("middle"):
        x = res_block(x, time, params["middle"]["block1"])
        x = pixel_attention(x, params["middle"])
        x = res_block(x, time, params["middle"]["block2"])
    for index, level in enumerate(params["up"]):
        with jax.named_scope(f"up{index}"):
            for name in ("block1", "block2"):
                x = res_block(jnp.concatenate([x, left.pop()], axis=-1), time, level[name])
            if "double" in level:
                x = conv(double(x), level["double"])
    return conv(jax.nn.silu(group_norm(x, params["norm"])), params["out"])


def unet_step(
    params: Tree, state: Tree, images: Array, noise: Array, time: Array
) -> tuple[Tree, Tree, Array]:
    """Trains `unet` with Adam to tell the noise that was mixed into images."""
    angle = (jnp.pi / 2) * time[:, None, None, None]
    noised = jnp.cos(angle) * images + jnp.sin(angle) * noise

    def loss_of(params: Tree) -> Array:
        return jnp.square(unet(params, noised, time) - noise).mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    params, state = adam(params, state, grads, rate=1e-4)
    return params, state, loss


def unet_train(batch: int = 8, size: int = 64) -> Example:
    """Describes a training step of a diffusion U-Net on 64 by 64 images."""
    params = specs_of(init_unet)
    state = jax.eval_shape(init_adam, params)
    images = spec(batch, size, size, 3)
    return Example(unet_step, (params, state, images, images, spec(batch)), (0, 1))


# A recurrent language model: its gradient runs a loop backwards.


def init_lstm(key: Array, vocabulary: int = 256, width: int = 512) -> Tree:
    """Draws the weights of `lstm`."""
    weights = Weights(key)
    return {
        "embedding": weights.normal(vocabulary, width, scale=1.0),
        "input": weights.dense(width, 4 * width),
        "state": weights.normal(width, 4 * width),
        "head": weights.dense(width, vocabulary),
    }


def lstm(params: Tree, tokens: Array) -> Array:
    """Scores the next byte after each position of [time, batch] bytes."""
    # The inputs' share of the gates is one large product; only the state's share must wait.
    inputs = dense(params["embedding"][tokens], params["input"])

    def lstm_cell(carry: tuple[Array, Array], gates: Array) -> tuple[tuple[Array, Array], Array]:
        cell, hidden = carry
        gates = gates + hidden @ params["state"]
        enter, forget, leave, new = jnp.split(gates, 4, axis=-1)
        # The added one lets the cell remember before it has learned to.
        cell = jax.nn.sigmoid(forget + 1) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
        return (cell, hidden), hidden

    zeros = jnp.zeros((tokens.shape[1], params["state"].shape[0]))
    _, hidden = lax.scan(lstm_cell, (zeros, zeros), inputs)
    return dense(hidden, params["head"])


def lstm_step(params: Tree, state: Tree, tokens: Array) -> tuple[Tree, Tree, Array]:
    """Trains `lstm` with Adam to predict each byte from those before it."""

    def loss_of(params: Tree) -> Array:
        return cross_entropy(lstm(params, tokens[:-1]), tokens[1:])

    loss, grads = jax.value_and_grad(loss_of)(params)
    params, state = adam(params, state, grads, rate=1e-3)
    return params, state, loss


def lstm_train(batch: int = 32, time: int = 128) -> Example:
    """Describes a training step of a byte-level recurrent language model."""
    params = specs_of(init_lstm)
    state = jax.eval_shape(init_adam, params)
    return Example(lstm_step, (params, state, spec(time + 1, batch, dtype=jnp.int32)), (0, 1))


MODELS: dict[str, Callable[[], Example]] = {
    "mlp": mlp_inference,
    "mnist_cnn": mnist_cnn_train,
    "lstm": lstm_train,
    "resnet50": resnet50_train,
    "gpt2": gpt2_train,
    "gpt2_remat": gpt2_remat_train,
    "llama_1b": llama_1b_decode,
    "vit_b16": vit_b16_inference,
    "unet": unet_train,
}
"""Every example by name; calling one gives its function, its shapes and what it may overwrite."""
