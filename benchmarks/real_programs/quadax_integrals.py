"""Parameters of an integrand by the gradient through quadax's adaptive quadrature."""

import jax
import jax.numpy as jnp
from quadax import cubegm, quadgk


def _line(rate):
    value, _ = quadgk(
        lambda t, rate: t * jnp.log1p(rate * t), [0.0, 1.0], (rate,), epsabs=1e-5, epsrel=1e-5
    )
    return value


def _square(widths):
    def bump(point, widths):
        return jnp.exp(-jnp.sum((point / widths) ** 2))

    corners = jnp.array([-1.0, -1.0]), jnp.array([1.0, 1.0])
    value, _ = cubegm(
        bump, corners, (widths,), epsabs=1e-4, epsrel=1e-4, max_nregion=60, extrapolate=False
    )
    return value


@jax.jit
def step(rates, widths):
    lines = jax.vmap(jax.value_and_grad(_line))(rates)
    return lines, jax.value_and_grad(_square)(widths)


def arguments():
    """Return rates and widths."""
    return jnp.linspace(0.5, 3.0, 16), jnp.array([0.4, 0.9])


def run(rates, widths):
    """Return integrals and their slopes."""
    (lines, slopes), (value, gradient) = step(rates, widths)
    return [float(x) for x in [*lines, *slopes, value, *gradient]]
