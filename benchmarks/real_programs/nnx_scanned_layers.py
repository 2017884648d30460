"""Layers of flax.nnx that are scanned over, with batch normalization and dropout: 8 steps."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

LAYERS, WIDTH = 6, 64


class Block(nnx.Module):
    """A dense layer, normalized and dropped out."""

    def __init__(self, rngs):
        self.linear = nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.norm = nnx.BatchNorm(WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        """Return the sum with what came in."""
        return x + nnx.gelu(self.dropout(self.norm(self.linear(x))))


class Network(nnx.Module):
    """Blocks that are one module with a further dimension."""

    def __init__(self, rngs):
        @nnx.split_rngs(splits=LAYERS)
        @nnx.vmap(axis_size=LAYERS)
        def blocks(rngs):
            return Block(rngs)

        self.blocks = blocks(rngs)
        self.last = nnx.Linear(WIDTH, 1, rngs=rngs)

    def __call__(self, x):
        """Return one number for each row."""

        @nnx.scan
        @nnx.remat
        def through(x, block):
            return block(x), None

        return self.last(through(x, self.blocks)[0])[:, 0]


@nnx.jit
def step(network, optimizer, x, y):
    def loss(network):
        return jnp.mean((network(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(network)
    optimizer.update(network, grads)
    return value


def arguments():
    """Return the network, its optimizer and one batch."""
    network = Network(nnx.Rngs(params=0, dropout=1))
    optimizer = nnx.Optimizer(network, optax.adamw(1e-3), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(2), (128, WIDTH))
    return network, optimizer, x, jnp.sin(x).sum(1)


def run(network, optimizer, x, y):
    """Return the losses of 8 steps from the state that the network has now."""
    graph, state = nnx.split((network, optimizer))
    state = jax.tree.map(jnp.copy, state)
    network, optimizer = nnx.merge(graph, state)
    return [float(step(network, optimizer, x, y)) for _ in range(8)]
