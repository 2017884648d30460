"""A logistic regression whose posterior NUTS of numpyro samples."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS


def model(x, y):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(x.shape[1]), 1.0).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


kernel = NUTS(model)
step = jax.jit(lambda state, x, y: kernel.sample(state, (x, y), {}))


def arguments():
    """Return the state of the sampler, the inputs and the outcomes."""
    x = jax.random.normal(jax.random.key(0), (200, 5))
    y = (x @ jnp.arange(-2.0, 3.0) > 0).astype(jnp.float32)
    return kernel.init(jax.random.key(1), 50, None, (x, y), {}), x, y


def run(state, x, y):
    """Return the energies of 12 samples: later ones go their own way by rounding."""
    energies = []
    for _ in range(12):
        state = step(state, x, y)
        energies.append(state.potential_energy)
    return [float(x) for x in energies]
