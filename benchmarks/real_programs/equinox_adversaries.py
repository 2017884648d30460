"""Two adversaries of equinox: transposed convolutions, spectral norms, batch statistics by vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Maker(eqx.Module):
    """Images out of noise."""

    layers: list

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.ConvTranspose2d(16, 32, 4, key=keys[0]),
            eqx.nn.BatchNorm(32, "batch", mode="ema"),
            jax.nn.relu,
            eqx.nn.ConvTranspose2d(32, 16, 4, 2, padding=1, key=keys[1]),
            eqx.nn.BatchNorm(16, "batch", mode="ema"),
            jax.nn.relu,
            eqx.nn.ConvTranspose2d(16, 1, 4, 2, padding=1, key=keys[2]),
            jnp.tanh,
        ]

    def __call__(self, x, state):
        """Return an image and the state."""
        for layer in self.layers:
            if isinstance(layer, eqx.nn.BatchNorm):
                x, state = layer(x, state)
            else:
                x = layer(x)
        return x, state


class Judge(eqx.Module):
    """The odds that an image is a true one."""

    first: eqx.nn.SpectralNorm
    second: eqx.nn.Conv2d
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        plain = eqx.nn.Conv2d(1, 16, 4, 2, padding=1, key=keys[0])
        self.first = eqx.nn.SpectralNorm(plain, "weight", key=keys[1])
        self.second = eqx.nn.Conv2d(16, 32, 4, 2, padding=1, key=keys[2])
        self.last = eqx.nn.Linear(32 * 16, 1, key=keys[3])

    def __call__(self, x, state):
        """Return the odds and the state."""
        x, state = self.first(x, state)
        x = self.second(jax.nn.leaky_relu(x, 0.2))
        return self.last(jax.nn.leaky_relu(x, 0.2).ravel())[0], state


optimizer = optax.adam(2e-4, b1=0.5)
many = {"axis_name": "batch", "in_axes": (0, None), "out_axes": (0, None)}


def judged(judge, x, states, goal):
    odds, state = jax.vmap(judge, **many)(x, states)
    return optax.sigmoid_binary_cross_entropy(odds, jnp.full(len(x), goal)).mean(), state


@eqx.filter_jit
def step(maker, judge, states, moments, real, noise):
    def maker_loss(maker):
        made, own = jax.vmap(maker, **many)(noise, states[0])
        return judged(judge, made, states[1], 1.0)[0], (made, own)

    def judge_loss(judge):
        true, state = judged(judge, real, states[1], 0.9)
        false, state = judged(judge, made, state, 0.0)
        return true + false, state

    gradient = eqx.filter_value_and_grad
    (first, (made, own)), grads = gradient(maker_loss, has_aux=True)(maker)
    updates, one = optimizer.update(grads, moments[0])
    maker = eqx.apply_updates(maker, updates)
    (second, other), grads = gradient(judge_loss, has_aux=True)(judge)
    updates, two = optimizer.update(grads, moments[1])
    judge = eqx.apply_updates(judge, updates)
    return maker, judge, (own, other), (one, two), (first, second)


def arguments():
    """Return both networks, states, moments, images and noise."""
    maker, own = eqx.nn.make_with_state(Maker)(jax.random.key(0))
    judge, other = eqx.nn.make_with_state(Judge)(jax.random.key(1))
    moments = [optimizer.init(eqx.filter(x, eqx.is_inexact_array)) for x in (maker, judge)]
    real = jax.random.normal(jax.random.key(2), (16, 1, 16, 16))
    noise = jax.random.normal(jax.random.key(3), (16, 16, 1, 1))
    return maker, judge, (own, other), tuple(moments), real, noise


def run(maker, judge, states, moments, real, noise):
    """Return the losses of 3 steps."""
    found = []
    for _ in range(3):
        maker, judge, states, moments, losses = step(maker, judge, states, moments, real, noise)
        found += map(float, losses)
    return found
