"""A thousand paths of a process with noise, by diffrax and vmap."""

import diffrax
import jax
import jax.numpy as jnp


@jax.jit
@jax.vmap
def step(key, start):
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: 2.0 * (1.0 - y)),
        diffrax.ControlTerm(lambda t, y, args: 0.3 * jnp.sqrt(jnp.abs(y)), noise),
    )
    saved = diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 5))
    solution = diffrax.diffeqsolve(
        terms, diffrax.EulerHeun(), 0.0, 1.0, dt0=0.02, y0=start, saveat=saved
    )
    return solution.ys


def arguments():
    """Return keys and beginnings."""
    return jax.random.split(jax.random.key(0), 1000), jnp.linspace(0.5, 2.0, 1000)


def run(keys, starts):
    """Return means and deviations at five times."""
    ys = step(keys, starts)
    return [float(x) for x in jnp.concatenate([ys.mean(0), ys.std(0)])]
