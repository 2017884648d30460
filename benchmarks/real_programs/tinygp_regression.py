"""The kernel of a Gaussian process of tinygp, fitted 5 steps; then predictions."""

import jax
import jax.numpy as jnp
import optax
from tinygp import GaussianProcess, kernels

optimizer = optax.adam(0.05)


def process(theta, x):
    slow = jnp.exp(theta["height"]) * kernels.Matern52(jnp.exp(theta["length"]))
    wave = kernels.ExpSineSquared(scale=1.0, gamma=jnp.exp(theta["gamma"]))
    return GaussianProcess(slow + 0.5 * wave, x, diag=jnp.exp(theta["noise"]), mean=theta["mean"])


@jax.jit
def step(theta, state, x, y):
    value, grads = jax.value_and_grad(lambda t: -process(t, x).log_probability(y))(theta)
    updates, state = optimizer.update(grads, state)
    theta = optax.apply_updates(theta, updates)
    _, given = process(theta, x).condition(y, jnp.linspace(0.0, 10.0, 60))
    return theta, state, value, given.loc, given.variance


def arguments():
    """Return the kernel's numbers, the optimizer's state, inputs and outcomes."""
    theta = {"height": 0.0, "length": 0.5, "gamma": 0.1, "noise": -2.0, "mean": 0.0}
    theta = {name: jnp.float32(value) for name, value in theta.items()}
    x = jnp.sort(jax.random.uniform(jax.random.key(0), (240,), maxval=10.0))
    y = jnp.sin(2 * x) + 0.1 * x + 0.2 * jax.random.normal(jax.random.key(1), (240,))
    return theta, optimizer.init(theta), x, y


def run(theta, state, x, y):
    """Return the costs and some predictions."""
    costs = []
    for _ in range(5):
        theta, state, value, mean, variance = step(theta, state, x, y)
        costs.append(float(value))
    return costs + [float(x) for x in jnp.concatenate([mean[::20], variance[::20]])]
