"""Fits, roots and Gauss quadrature in orthax's families of orthogonal polynomials."""

import jax
import jax.numpy as jnp
import orthax
from orthax.recurrence import Jacobi


@jax.jit
def step(x, y):
    family = Jacobi(jnp.float32(0.5), jnp.float32(1.5))
    nodes, weights = orthax.orthgauss(24, family)
    fitted = orthax.chebyshev.chebfit(x, y, 12)
    slope = orthax.chebyshev.chebder(fitted)
    roots = orthax.chebyshev.chebroots(fitted[:8])
    total = jnp.sum(weights * orthax.chebyshev.chebval(nodes, fitted) ** 2)
    basis = orthax.legendre.legvander2d(x[:50], y[:50], (4, 5))
    return fitted, slope, jnp.sort(jnp.abs(roots)), total, basis.sum(0)


def arguments():
    """Return points and noisy values."""
    x = jnp.linspace(-1.0, 1.0, 400)
    return x, jnp.sin(4.0 * x) + 0.05 * jax.random.normal(jax.random.key(0), (400,))


def run(x, y):
    """Return the integral, coefficients and roots."""
    fitted, slope, roots, total, basis = step(x, y)
    return [float(v) for v in [total, *fitted[:6], *slope[:4], *roots[:4], basis[3]]]
