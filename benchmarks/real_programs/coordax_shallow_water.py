"""Waves in shallow water on labelled axes of coordax, with semi-implicit steps by FFT."""

import coordax as cx
import jax
import jax.numpy as jnp

X, Y = cx.SizedAxis("x", 64), cx.SizedAxis("y", 48)


def _slope(row):
    waves = 2j * jnp.pi * jnp.fft.rfftfreq(row.shape[0], 1.0 / row.shape[0])
    return jnp.fft.irfft(waves * jnp.fft.rfft(row), row.shape[0])


def _along(field, axis):
    return cx.cmap(_slope, out_axes="same_as_input")(field.untag(axis)).tag(axis)


def _advance(state, _):
    height, u, v = state
    u = u - 2e-3 * _along(height, X) + 1e-3 * v
    v = v - 2e-3 * _along(height, Y) - 1e-3 * u
    height = height - 2e-3 * (_along((1.0 + height) * u, X) + _along((1.0 + height) * v, Y))
    return (height, u, v), cx.cmap(jnp.mean)((height * height).untag(X, Y)).data


@jax.jit
def step(height, u, v):
    return jax.lax.scan(_advance, (height, u, v), None, length=40)


def arguments():
    """Return a bump of water at rest."""
    x, y = jnp.linspace(-1, 1, 64)[:, None], jnp.linspace(-1, 1, 48)
    height = cx.field(0.1 * jnp.exp(-10.0 * (x**2 + y**2)), X, Y)
    still = cx.field(jnp.zeros((64, 48)), X, Y)
    return height, still, still


def run(height, u, v):
    """Return the energies over time, and the last velocities."""
    (_, u, v), energies = step(height, u, v)
    return [float(x) for x in [*energies[::8], jnp.abs(u.data).max(), jnp.abs(v.data).max()]]
