"""A linear Gaussian state space model of dynamax: gradients of its likelihood, and smoothing."""

import jax
import jax.numpy as jnp
from dynamax.linear_gaussian_ssm import LinearGaussianSSM

model = LinearGaussianSSM(4, 3)
start, props = model.initialize(jax.random.PRNGKey(0))


@jax.jit
def step(params, observations):
    def cost(weights):
        moved = params._replace(dynamics=params.dynamics._replace(weights=weights))
        return -jax.vmap(lambda y: model.marginal_log_prob(moved, y))(observations).mean()

    value, slope = jax.value_and_grad(cost)(params.dynamics.weights)
    smoothed = jax.vmap(lambda y: model.smoother(params, y).smoothed_means)(observations)
    dynamics = params.dynamics._replace(weights=params.dynamics.weights - 1e-5 * slope)
    return params._replace(dynamics=dynamics), value, smoothed[:, ::25, 0]


def arguments():
    """Return the parameters and four series of observations."""
    t = jnp.linspace(0, 20, 100)
    waves = jnp.stack([jnp.sin(t), jnp.cos(1.3 * t), jnp.sin(0.7 * t) * jnp.cos(t)], -1)
    return start, waves + 0.1 * jax.random.normal(jax.random.key(1), (4, 100, 3))


def run(params, observations):
    """Return the costs of five steps, and some of the states."""
    costs = []
    for _ in range(5):
        params, cost, states = step(params, observations)
        costs.append(float(cost))
    return costs + [float(x) for x in states.ravel()]
