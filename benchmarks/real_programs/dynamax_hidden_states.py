"""A hidden Markov model of dynamax: gradients of its likelihood, and its smoothed states."""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import GaussianHMM

model = GaussianHMM(5, 2)
start, props = model.initialize(jax.random.PRNGKey(0))


@jax.jit
def step(params, observations):
    def cost(means):
        emissions = params.emissions._replace(means=means)
        moved = params._replace(emissions=emissions)
        return -jax.vmap(lambda y: model.marginal_log_prob(moved, y))(observations).mean()

    value, slope = jax.value_and_grad(cost)(params.emissions.means)
    smoothed = jax.vmap(lambda y: model.smoother(params, y).smoothed_probs)(observations)
    means = params.emissions.means - 1e-3 * slope
    moved = params._replace(emissions=params.emissions._replace(means=means))
    return moved, value, smoothed.mean((0, 1))


def arguments():
    """Return the parameters and eight series of observations."""
    state = jnp.arange(200) // 20 % 5
    centre = jnp.stack([jnp.cos(state * 1.3), jnp.sin(state * 1.3)], -1) * 2
    return start, centre + 0.4 * jax.random.normal(jax.random.key(1), (8, 200, 2))


def run(params, observations):
    """Return the costs of five steps and the last share of each state."""
    costs = []
    for _ in range(5):
        params, cost, shares = step(params, observations)
        costs.append(float(cost))
    return costs + [float(x) for x in shares]
