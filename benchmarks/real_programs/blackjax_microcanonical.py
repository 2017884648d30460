"""Microcanonical Langevin chains, Pathfinder and Stein's particles of BlackJAX on one posterior."""

import blackjax
import jax
import jax.numpy as jnp
import optax

_points = jax.random.normal(jax.random.key(9), (100, 8))


def _log_density(theta):
    scores = _points @ theta
    return -jnp.sum(jnp.logaddexp(0.0, -scores * jnp.sign(_points[:, 0]))) - 0.5 * theta @ theta


@jax.jit
def step(key, start, particles):
    keys = jax.random.split(key, 3)
    chain = blackjax.mclmc(_log_density, L=2.0, step_size=0.3)

    def advance(state, key):
        state, info = chain.step(key, state)
        return state, info.energy_change

    state, changes = jax.lax.scan(
        advance, chain.init(start, keys[0]), jax.random.split(keys[1], 300)
    )
    path, _ = blackjax.vi.pathfinder.approximate(keys[2], _log_density, start, num_samples=50)
    stein = blackjax.svgd(jax.grad(_log_density), optax.sgd(0.05))

    def move(state, _):
        return stein.step(state), None

    moved, _ = jax.lax.scan(move, stein.init(particles), None, length=20)
    return state.position, changes, path.elbo, moved.particles


def arguments():
    """Return a key, a beginning and particles."""
    return jax.random.key(0), jnp.zeros(8), jax.random.normal(jax.random.key(1), (40, 8))


def run(key, start, particles):
    """Return parts of what all three found."""
    position, changes, elbo, moved = step(key, start, particles)
    return [float(x) for x in [*position[:2], jnp.abs(changes).mean(), elbo, *moved.mean(0)[:3]]]
