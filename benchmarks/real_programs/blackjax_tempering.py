"""Particles of blackjax between two modes: adaptive tempering with Hamiltonian moves."""

import blackjax
import jax
import jax.numpy as jnp
from blackjax.smc import resampling
from jax.scipy.stats import multivariate_normal

SIZE = 3


def prior(x):
    return multivariate_normal.logpdf(x, jnp.zeros(SIZE), 9.0 * jnp.eye(SIZE))


def likelihood(x):
    near = [multivariate_normal.logpdf(x, m * jnp.ones(SIZE), 0.3 * jnp.eye(SIZE)) for m in (-2, 2)]
    return jnp.logaddexp(*near)


sampler = blackjax.adaptive_tempered_smc(
    prior,
    likelihood,
    blackjax.hmc.build_kernel(),
    blackjax.hmc.init,
    {
        "step_size": jnp.array([0.2]),
        "inverse_mass_matrix": jnp.eye(SIZE)[None],
        "num_integration_steps": jnp.array([5]),
    },
    resampling.systematic,
    target_ess=0.6,
    num_mcmc_steps=2,
)


@jax.jit
def step(key, state):
    def once(carry):
        count, key, state = carry
        key, own = jax.random.split(key)
        state, _ = sampler.step(own, state)
        return count + 1, key, state

    def goes_on(carry):
        return (carry[2].tempering_param < 1) & (carry[0] < 12)

    return jax.lax.while_loop(goes_on, once, (0, key, state))


def arguments():
    """Return a key and the first particles."""
    particles = 3.0 * jax.random.normal(jax.random.key(0), (200, SIZE))
    return jax.random.key(1), sampler.init(particles)


def run(key, state):
    """Return the count of steps and moments of the particles."""
    count, _, state = step(key, state)
    return [float(count), float(state.particles.mean()), float(state.particles.std())]
