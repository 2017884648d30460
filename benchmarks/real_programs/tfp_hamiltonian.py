"""Hamiltonian Monte Carlo of TensorFlow Probability: a hierarchical model of eight schools."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd = tfp.distributions

EFFECTS = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
DEVIATIONS = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)


def model(deviations):
    """Return the joint distribution of the schools' effects."""
    return tfd.JointDistributionSequential(
        [
            tfd.Normal(0.0, 10.0),
            tfd.Normal(5.0, 1.0),
            tfd.Independent(tfd.Normal(jnp.zeros(8), 1.0), 1),
            lambda standard, log_width, mean: tfd.Independent(
                tfd.Normal(mean[..., None] + jnp.exp(log_width)[..., None] * standard, deviations),
                1,
            ),
        ]
    )


@jax.jit
def step(key, effects, deviations):
    joint = model(deviations)

    def target(mean, log_width, standard):
        return joint.log_prob(mean, log_width, standard, effects)

    kernel = tfp.mcmc.SimpleStepSizeAdaptation(
        tfp.mcmc.HamiltonianMonteCarlo(target, step_size=0.3, num_leapfrog_steps=3),
        num_adaptation_steps=20,
    )
    start = [jnp.zeros(16), jnp.ones(16), jnp.zeros((16, 8))]
    states, accepted = tfp.mcmc.sample_chain(
        30,
        start,
        kernel=kernel,
        num_burnin_steps=20,
        trace_fn=lambda _, results: results.inner_results.is_accepted,
        seed=key,
    )
    rate = accepted.astype(jnp.float32).mean()
    return [x.mean((0, 1)) for x in states], rate


def arguments():
    """Return the key, the effects and their deviations."""
    return jax.random.key(0), jnp.array(EFFECTS), jnp.array(DEVIATIONS)


def run(key, effects, deviations):
    """Return the rate of acceptance."""
    _, rate = step(key, effects, deviations)
    return [float(rate)]
