"""The log-determinant of a kernel matrix by matfree's Lanczos quadrature, with its gradient."""

import jax
import jax.numpy as jnp
from matfree import decomp, funm, stochtrace


def _product(vector, scale, points):
    apart = jnp.sum((points[:, None] - points[None]) ** 2, -1)
    return jnp.exp(-apart / scale**2) @ vector + 0.5 * vector


@jax.jit
def step(scale, points, key):
    lanczos = decomp.tridiag_sym(12, materialize=True)
    problem = funm.monte_carlo_funm_sym_logdet(lanczos)
    sampler = stochtrace.sampler_signs(jnp.ones(points.shape[0]), num=8)
    estimate = stochtrace.estimator_monte_carlo(problem, sampler=sampler)

    def value(scale):
        return estimate(_product, key, scale, points)

    return jax.value_and_grad(value)(scale)


def arguments():
    """Return a length, points and a key."""
    return jnp.float32(0.7), jax.random.normal(jax.random.key(0), (200, 3)), jax.random.key(1)


def run(scale, points, key):
    """Return the determinant, and its slope."""
    value, slope = step(scale, points, key)
    return [float(value), float(slope)]
