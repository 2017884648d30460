"""Sixteen chains of Hamiltonian Monte Carlo of blackjax on a regression, 20 samples each."""

import blackjax
import jax
import jax.numpy as jnp


def chains(keys, positions, x, y):
    def density(position):
        logits = x @ position["weights"] + position["bias"]
        likelihood = jnp.sum(y * logits - jax.nn.softplus(logits))
        return likelihood - 0.5 * (jnp.sum(position["weights"] ** 2) + position["bias"] ** 2)

    sampler = blackjax.hmc(density, 0.02, jnp.ones(9), 12)

    def chain(key, position):
        def one(state, key):
            state, info = sampler.step(key, state)
            return state, (state.logdensity, info.acceptance_rate)

        return jax.lax.scan(one, sampler.init(position), jax.random.split(key, 20))

    return jax.vmap(chain)(keys, positions)


step = jax.jit(chains)


def arguments():
    """Return keys, beginnings, inputs and outcomes."""
    x = jax.random.normal(jax.random.key(0), (300, 8))
    y = (x @ jnp.linspace(-1, 1, 8) > 0.2).astype(jnp.float32)
    keys = jax.random.split(jax.random.key(1), 16)
    begin = {"weights": 0.1 * jax.random.normal(jax.random.key(2), (16, 8)), "bias": jnp.zeros(16)}
    return keys, begin, x, y


def run(keys, positions, x, y):
    """Return the mean density and acceptance of the first samples."""
    _, (density, accepted) = step(keys, positions, x, y)
    return [float(x) for x in jnp.concatenate([density.mean(0)[:8], accepted.mean(0)[:8]])]
