"""A regression with levels by group, fitted by variational inference of numpyro, 100 steps."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal


def model(group, x, y):
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
    with numpyro.plate("groups", 20):
        level = numpyro.sample("level", dist.Normal(mean, spread))
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.Exponential(1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(level[group] + slope[group] * x, noise), obs=y)


svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.02), Trace_ELBO(num_particles=4))


@jax.jit
def step(state, group, x, y):
    return jax.lax.scan(lambda s, _: svi.update(s, group, x, y), state, None, length=100)


def arguments():
    """Return the state, groups, inputs and outcomes."""
    x = jax.random.normal(jax.random.key(0), (400,))
    group = jnp.arange(400) % 20
    y = 0.1 * group + x * jnp.cos(group) + 0.2 * jax.random.normal(jax.random.key(1), (400,))
    return svi.init(jax.random.PRNGKey(2), group, x, y), group, x, y


def run(state, group, x, y):
    """Return every tenth loss."""
    _, losses = step(state, group, x, y)
    return [float(x) for x in losses[::10]]
