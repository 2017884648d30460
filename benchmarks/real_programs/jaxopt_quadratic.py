"""Portfolios by a quadratic program of jaxopt, and the gradient through its solution."""

import jax
import jax.numpy as jnp
import jaxopt

ASSETS = 12
program = jaxopt.OSQP(maxiter=400, tol=1e-4)
projected = jaxopt.ProjectedGradient(
    lambda w, covariance, gains: 0.5 * w @ covariance @ w - gains @ w,
    jaxopt.projection.projection_simplex,
    maxiter=100,
)


def weights(gains, covariance):
    return program.run(
        params_obj=(covariance, -gains),
        params_eq=(jnp.ones((1, ASSETS)), jnp.ones(1)),
        params_ineq=(-jnp.eye(ASSETS), jnp.zeros(ASSETS)),
    ).params.primal


@jax.jit
def step(gains, covariance):
    def risk(gains):
        chosen = weights(gains, covariance)
        return chosen @ covariance @ chosen

    value, slope = jax.value_and_grad(risk)(gains)
    other = projected.run(jnp.full(ASSETS, 1 / ASSETS), 1.0, covariance, gains).params
    return value, slope, other


def arguments():
    """Return expected gains and their covariance."""
    factors = jax.random.normal(jax.random.key(0), (ASSETS, 40))
    return 0.3 * jax.random.normal(jax.random.key(1), (ASSETS,)), factors @ factors.T / 40


def run(gains, covariance):
    """Return the risk, its slopes and the largest share."""
    value, slope, other = step(gains, covariance)
    return [float(value), float(jnp.linalg.norm(slope)), float(other.max())]
