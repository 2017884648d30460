"""Projected gradients, proximal gradients and Anderson's acceleration of jaxopt on a simplex."""

import jax
import jax.numpy as jnp
import jaxopt
from jaxopt import projection, prox


def cost(w, given):
    """Return the mean square of what is left."""
    x, y = given
    return jnp.mean((x @ w - y) ** 2)


projected = jaxopt.ProjectedGradient(cost, projection.projection_simplex, maxiter=60, tol=1e-6)
lasso = jaxopt.ProximalGradient(cost, prox.prox_lasso, maxiter=60, tol=1e-6)
quasi = jaxopt.LBFGS(cost, maxiter=30, tol=1e-6)


@jax.jit
def step(w, x, y):
    given = (x, y)
    on_simplex = projected.run(w, hyperparams_proj=1.0, given=given).params
    sparse = lasso.run(w, hyperparams_prox=0.02, given=given).params
    smooth = quasi.run(w, given=given).params
    fixed = jaxopt.AndersonAcceleration(
        lambda v, a: projection.projection_simplex(v - 0.1 * jax.grad(cost)(v, a)),
        history_size=4,
        maxiter=40,
    )
    return on_simplex, sparse, smooth, fixed.run(w, given).params


def arguments():
    """Return first weights, and rows with numbers that hang on some of their columns."""
    x = jax.random.normal(jax.random.key(0), (200, 24))
    w = jnp.zeros(24).at[jnp.array([2, 7, 11])].set(jnp.array([0.5, 0.3, 0.2]))
    y = x @ w + 0.05 * jax.random.normal(jax.random.key(1), (200,))
    return jnp.full(24, 1 / 24), x, y


def run(w, x, y):
    """Return the weights that were found."""
    return [float(v) for found in step(w, x, y) for v in found]
