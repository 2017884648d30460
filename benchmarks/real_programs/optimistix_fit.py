"""Curves fitted to 64 sets of points at once by Levenberg and Marquardt's method of optimistix."""

import jax
import jax.numpy as jnp
import optimistix as optx

TIMES = jnp.linspace(0.0, 4.0, 40)


def curve(theta):
    return theta[0] * jnp.exp(-theta[1] * TIMES) * jnp.cos(theta[2] * TIMES) + theta[3]


@jax.jit
@jax.vmap
def step(start, ys):
    solver = optx.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
    found = optx.least_squares(
        lambda theta, y: curve(theta) - y, solver, start, args=ys, max_steps=64, throw=False
    )
    return found.value, jnp.sum((curve(found.value) - ys) ** 2)


def arguments():
    """Return beginnings and points."""
    true = jnp.array([1.5, 0.5, 3.0, 0.2]) + 0.1 * jax.random.normal(jax.random.key(0), (64, 4))
    noise = 0.02 * jax.random.normal(jax.random.key(1), (64, 40))
    return jnp.tile(jnp.array([1.2, 0.4, 2.8, 0.0]), (64, 1)), jax.vmap(curve)(true) + noise


def run(starts, ys):
    """Return some of what was found, and the mean error."""
    theta, error = step(starts, ys)
    return [float(x) for x in theta[:4].ravel()] + [float(error.mean())]
