"""A causal transformer of flax.nnx that learns to repeat what it read: 6 steps."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

WORDS, WIDTH, LENGTH = 40, 48, 32


class Layer(nnx.Module):
    """Attention and a dense layer, each normalized before."""

    def __init__(self, rngs):
        self.first = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, WIDTH, rngs=rngs, decode=False)
        self.second = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x, mask):
        """Return the sum with what came in."""
        x = x + self.attention(self.first(x), mask=mask)
        return x + self.down(nnx.silu(self.up(self.second(x))))


class Reader(nnx.Module):
    """Two layers between an embedding and its transpose."""

    def __init__(self, rngs):
        self.words = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.places = nnx.Embed(LENGTH, WIDTH, rngs=rngs)
        self.layers = nnx.List([Layer(rngs) for _ in range(2)])

    def __call__(self, text):
        """Return a number for each word that may come next."""
        mask = nnx.make_causal_mask(text)
        x = self.words(text) + self.places(jnp.arange(LENGTH))
        for layer in self.layers:
            x = layer(x, mask)
        return self.words.attend(x)


@nnx.jit
def step(reader, optimizer, text):
    def loss(reader):
        found = reader(text)[:, :-1]
        costs = optax.softmax_cross_entropy_with_integer_labels(found, text[:, 1:])
        return costs[:, LENGTH // 2 :].mean()

    value, grads = nnx.value_and_grad(loss)(reader)
    optimizer.update(reader, grads)
    return value


def arguments():
    """Return the reader, its optimizer and texts whose second half is the first one."""
    reader = Reader(nnx.Rngs(0))
    optimizer = nnx.Optimizer(reader, optax.adamw(3e-3), wrt=nnx.Param)
    half = jax.random.randint(jax.random.key(1), (16, LENGTH // 2), 0, WORDS)
    return reader, optimizer, jnp.concatenate([half, half], 1)


def run(reader, optimizer, text):
    """Return the losses of 6 steps from the state that the reader has now."""
    graph, state = nnx.split((reader, optimizer))
    reader, optimizer = nnx.merge(graph, jax.tree.map(jnp.copy, state))
    return [float(step(reader, optimizer, text)) for _ in range(6)]
