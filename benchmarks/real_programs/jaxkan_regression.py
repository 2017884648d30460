"""A network of splines of jaxkan, fitted to a function of two numbers by 5 steps of Adam."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxkan.models.KAN import KAN

optimizer = optax.adam(1e-2)
model = KAN([2, 8, 1], "base", {"k": 3, "G": 5}, 0)
graph, _weights, _rest = nnx.split(model, nnx.Param, ...)


@jax.jit
def step(weights, state, x, y):
    def loss(weights):
        return jnp.mean((nnx.merge(graph, weights, _rest)(x)[:, 0] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    updates, state = optimizer.update(grads, state, weights)
    return optax.apply_updates(weights, updates), state, value


def arguments():
    """Return weights, the optimizer's state, points and values."""
    x = jax.random.uniform(jax.random.key(0), (512, 2), minval=-1.0)
    return _weights, optimizer.init(_weights), x, jnp.exp(jnp.sin(3 * x[:, 0]) + x[:, 1] ** 2)


def run(weights, state, x, y):
    """Return the losses of 5 steps."""
    losses = []
    for _ in range(5):
        weights, state, value = step(weights, state, x, y)
        losses.append(value)
    return [float(x) for x in losses]
