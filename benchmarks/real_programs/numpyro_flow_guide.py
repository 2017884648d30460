"""A mixture of numpyro, its labels marginalized, fitted by an autoregressive flow as guide."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoIAFNormal

GROUPS = 3


def model(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(GROUPS, 2.0)))
    means = numpyro.sample(
        "means",
        dist.TransformedDistribution(
            dist.Normal(0.0, 3.0).expand([GROUPS]).to_event(1), dist.transforms.OrderedTransform()
        ),
    )
    spreads = numpyro.sample("spreads", dist.LogNormal(0.0, 0.5).expand([GROUPS]).to_event(1))
    groups = dist.Normal(means, spreads)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), groups), obs=y)


guide = AutoIAFNormal(model, hidden_dims=[32, 32])
svi = SVI(model, guide, numpyro.optim.ClippedAdam(5e-3), Trace_ELBO(num_particles=2))


@jax.jit
def step(state, y):
    return jax.lax.scan(lambda state, _: svi.update(state, y), state, None, length=10)


def arguments():
    """Return the state of the inference and the rows."""
    group = jax.random.randint(jax.random.key(0), (300,), 0, GROUPS)
    y = 3.0 * (group - 1) + jax.random.normal(jax.random.key(1), (300,))
    return svi.init(jax.random.PRNGKey(2), y), y


def run(state, y):
    """Return the losses of 10 updates."""
    return [float(x) for x in step(state, y)[1]]
