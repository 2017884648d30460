"""A mixture of normal distributions in distreqx, fitted by 5 steps of gradient descent."""

import equinox as eqx
import jax
import jax.numpy as jnp
from distreqx.distributions import Categorical, MixtureSameFamily, MultivariateNormalDiag


def _log_likelihood(params, x):
    logits, means, scales = params
    parts = eqx.filter_vmap(MultivariateNormalDiag)(means, jax.nn.softplus(scales))
    mixture = MixtureSameFamily(Categorical(logits), parts)
    return jnp.mean(jax.vmap(mixture.log_prob)(x))


@jax.jit
def step(params, x):
    value, slope = jax.value_and_grad(_log_likelihood)(params, x)
    return jax.tree.map(lambda a, b: a + 0.1 * b, params, slope), value


def arguments():
    """Return logits, means and scales, and points."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (512, 4)) + 3.0 * jax.random.bernoulli(keys[1], shape=(512, 1))
    return (jnp.zeros(3), jax.random.normal(keys[2], (3, 4)), jnp.zeros((3, 4))), x


def run(params, x):
    """Return the likelihoods of 5 steps."""
    found = []
    for _ in range(5):
        params, value = step(params, x)
        found.append(value)
    return [float(x) for x in found]
