"""A normalizing flow of distrax: couplings of splines fitted to two moons in 8 steps."""

import distrax
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

BINS = 8


class Conditioner(nn.Module):
    """A network from the numbers that a coupling keeps to the splines of the others."""

    @nn.compact
    def __call__(self, x):
        """Return what the splines are made of, (..., 2, 3 * BINS + 1)."""
        for width in (64, 64):
            x = nn.relu(nn.Dense(width)(x))
        x = nn.Dense(2 * (3 * BINS + 1), kernel_init=nn.initializers.zeros)(x)
        return x.reshape(*x.shape[:-1], 2, 3 * BINS + 1)


conditioner = Conditioner()


def flow(params):
    """Return the distribution of the flow."""
    layers = []
    for number, weights in enumerate(params):
        layers.append(
            distrax.MaskedCoupling(
                mask=jnp.arange(2) % 2 == number % 2,
                bijector=lambda x: distrax.RationalQuadraticSpline(x, -3.0, 3.0),
                conditioner=lambda x, weights=weights: conditioner.apply(weights, x),
            )
        )
    base = distrax.Independent(distrax.Normal(jnp.zeros(2), jnp.ones(2)), 1)
    return distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))


optimizer = optax.adam(1e-3)


@jax.jit
def step(params, state, rows):
    def loss(params):
        return -flow(params).log_prob(rows).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return the weights of four couplings, the optimizer's state and points."""
    keys = jax.random.split(jax.random.key(0), 4)
    params = [conditioner.init(key, jnp.zeros(2)) for key in keys]
    angle = jnp.linspace(0.0, jnp.pi, 256)
    upper = jnp.stack([jnp.cos(angle) - 0.5, jnp.sin(angle) - 0.25], 1)
    rows = jnp.concatenate([upper, -upper]) + 0.05 * jax.random.normal(keys[0], (512, 2))
    return params, optimizer.init(params), rows


def run(params, state, rows):
    """Return the losses of 8 steps."""
    losses = []
    for _ in range(8):
        params, state, value = step(params, state, rows)
        losses.append(value)
    return [float(x) for x in losses]
