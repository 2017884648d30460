"""Samplers of blackjax by gradients: MALA, Barker, slices and walks; 8 chains of a regression."""

import blackjax
import jax
import jax.numpy as jnp

SIZE = 5


@jax.jit
def step(key, x, y):
    def density(w):
        logits = x @ w
        return jnp.sum(y * logits - jnp.logaddexp(0, logits)) - 0.5 * jnp.sum(w**2)

    def chain(sampler, key):
        def once(state, key):
            state, _ = sampler.step(key, state)
            return state, state.position

        start = sampler.init(jnp.zeros(SIZE))
        return jax.lax.scan(once, start, jax.random.split(key, 60))[1]

    covariance = 0.05 * jnp.eye(SIZE)
    samplers = [
        blackjax.mala(density, 0.01),
        blackjax.barker_proposal(density, 0.05),
        blackjax.elliptical_slice(density, mean=jnp.zeros(SIZE), cov=covariance),
        blackjax.additive_step_random_walk(density, blackjax.mcmc.random_walk.normal(covariance)),
    ]
    found = []
    for sampler, own in zip(samplers, jax.random.split(key, len(samplers)), strict=True):
        found.append(jax.vmap(lambda k, s=sampler: chain(s, k))(jax.random.split(own, 8)))
    return [jnp.stack([c.mean((0, 1)), c.std((0, 1))]) for c in found]


def arguments():
    """Return a key, and rows with their classes."""
    x = jax.random.normal(jax.random.key(1), (100, SIZE))
    y = (x @ jnp.arange(1.0, SIZE + 1) > 0).astype(jnp.float32)
    return jax.random.key(0), x, y


def run(key, x, y):
    """Return the moments that each sampler found."""
    return [float(v) for found in step(key, x, y) for v in found.ravel()]
