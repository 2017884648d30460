"""A surface fitted through the gradient of interpax's bicubic interpolation, and radial bases."""

import jax
import jax.numpy as jnp
from interpax import RBFInterpolator, interp2d


@jax.jit
def step(grid, points, seen, knots):
    x = jnp.linspace(0.0, 1.0, grid.shape[0])
    y = jnp.linspace(0.0, 1.0, grid.shape[1])

    def loss(grid):
        found = interp2d(points[:, 0], points[:, 1], x, y, grid, method="cubic2", extrap=True)
        return jnp.mean((found - seen) ** 2)

    value, slope = jax.value_and_grad(loss)(grid)
    radial = RBFInterpolator(knots, jnp.sin(knots.sum(1)), kernel="cubic")(points)
    return grid - 20.0 * slope, value, radial


def arguments():
    """Return a grid, points with their values, and knots."""
    keys = jax.random.split(jax.random.key(0), 2)
    points = jax.random.uniform(keys[0], (2000, 2))
    seen = jnp.sin(6.0 * points[:, 0]) * jnp.cos(4.0 * points[:, 1])
    return jnp.zeros((24, 20)), points, seen, jax.random.uniform(keys[1], (60, 2))


def run(grid, points, seen, knots):
    """Return the losses of ten steps and some values."""
    losses = []
    for _ in range(10):
        grid, value, radial = step(grid, points, seen, knots)
        losses.append(value)
    return [float(x) for x in [*losses, *radial[:4]]]
