"""Sequences reversed by two LSTMs of flax.linen: 4 steps of training, then greedy decoding."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

TOKENS, LENGTH = 32, 12


class Reverser(nn.Module):
    """An encoder and a decoder."""

    @nn.compact
    def __call__(self, x, y):
        """Return the scores of each next token."""
        embed = nn.Embed(TOKENS, 48)
        encoder = nn.RNN(nn.OptimizedLSTMCell(96), return_carry=True)
        carry, _ = encoder(embed(x))
        decoder = nn.RNN(nn.OptimizedLSTMCell(96))
        return nn.Dense(TOKENS)(decoder(embed(y), initial_carry=carry))


network = Reverser()
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


@jax.jit
def step(params, state, x):
    y = x[:, ::-1]
    before = jnp.pad(y[:, :-1], ((0, 0), (1, 0)))

    def loss(params):
        scores = network.apply(params, x, before)
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, y)
        return losses.mean(), jnp.mean(scores.argmax(-1) == y)

    (value, right), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, (value, right)


@jax.jit
def decode(params, x):
    def choose(tokens, place):
        scores = network.apply(params, x, tokens)
        chosen = jnp.take_along_axis(scores, place[None, None, None], 1)[:, 0].argmax(-1)
        return tokens.at[:, place + 1].set(chosen, mode="drop"), chosen

    return jax.lax.scan(choose, jnp.zeros_like(x), jnp.arange(LENGTH))[1]


def arguments():
    """Return weights, the optimizer's state and one batch."""
    x = jax.random.randint(jax.random.key(0), (32, LENGTH), 1, TOKENS)
    params = network.init(jax.random.key(1), x, x)
    return params, optimizer.init(params), x


def run(params, state, x):
    """Return losses and shares of right tokens of 4 steps, and a share of what is decoded."""
    found = []
    for _ in range(4):
        params, state, values = step(params, state, x)
        found += map(float, values)
    right = x[:, ::-1] == decode(params, x).T
    return [*found, float(jnp.mean(right))]
