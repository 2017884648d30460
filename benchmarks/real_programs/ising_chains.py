"""Magnets on a grid by Metropolis' rule, in the colours of a chessboard: plain JAX."""

import jax
import jax.numpy as jnp


@jax.jit
def step(key, spins, coldness):
    rows, columns = jnp.indices(spins.shape[1:])

    def sweep(spins, key):
        for colour in range(2):
            around = sum(jnp.roll(spins, by, axis) for by in (1, -1) for axis in (1, 2))
            chance = jnp.exp(-2.0 * coldness[:, None, None] * spins * around)
            drawn = jax.random.uniform(jax.random.fold_in(key, colour), spins.shape)
            turned = (drawn < chance) & ((rows + columns) % 2 == colour)
            spins = jnp.where(turned, -spins, spins)
        return spins, spins.mean((1, 2))

    return jax.lax.scan(sweep, spins, jax.random.split(key, 40))


def arguments():
    """Return a key, spins and coldnesses."""
    spins = jnp.sign(jax.random.normal(jax.random.key(1), (8, 64, 64)))
    return jax.random.key(0), spins, jnp.linspace(0.2, 0.6, 8)


def run(key, spins, coldness):
    """Return means of some sweeps."""
    return [float(x) for x in step(key, spins, coldness)[1][::8].ravel()]
