"""A seasonal series of numpyro in a scan of its control flow, fitted by a guide of low rank."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan
from numpyro.infer import SVI, TraceMeanField_ELBO
from numpyro.infer.autoguide import AutoLowRankMultivariateNormal

LENGTH, SEASON = 48, 6


def model(y):
    slope = numpyro.sample("slope", dist.Normal(0.5, 0.3))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    season = numpyro.sample("season", dist.Normal(0.0, 1.0).expand([SEASON]).to_event(1))
    level = numpyro.sample("level", dist.Normal(y[0], 1.0))

    def move(carry, y):
        level, season = carry
        mean = slope * level + season[0]
        y = numpyro.sample("y", dist.StudentT(4.0, mean, spread), obs=y)
        return (y, jnp.roll(season, -1)), mean

    scan(move, (level, season), y)


guide = AutoLowRankMultivariateNormal(model, rank=3)
svi = SVI(model, guide, numpyro.optim.Adam(0.02), TraceMeanField_ELBO(num_particles=4))


@jax.jit
def step(state, y):
    return jax.lax.scan(lambda state, _: svi.update(state, y), state, None, length=20)


def arguments():
    """Return the state of the inference and the series."""
    y = jnp.sin(jnp.arange(LENGTH) * jnp.pi / 3) + 0.1 * jax.random.normal(
        jax.random.key(0), (LENGTH,)
    )
    return svi.init(jax.random.PRNGKey(1), y), y


def run(state, y):
    """Return the losses of 20 updates."""
    return [float(x) for x in step(state, y)[1]]
