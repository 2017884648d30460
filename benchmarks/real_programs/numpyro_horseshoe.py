"""A sparse logistic regression of numpyro: Hamiltonian steps of 4 chains at once."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMC


def model(x, y):
    shares = numpyro.sample("shares", dist.HalfCauchy(jnp.ones(x.shape[1])).to_event(1))
    whole = numpyro.sample("whole", dist.HalfCauchy(0.1))
    with numpyro.handlers.reparam(config={"weights": numpyro.infer.reparam.LocScaleReparam(0)}):
        spread = whole * shares
        weights = numpyro.sample("weights", dist.Normal(0.0, spread).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


@jax.jit
def step(x, y, keys):
    def chain(key):
        kernel = HMC(model, step_size=0.02, num_steps=8, adapt_step_size=False)
        state = kernel.init(key, 0, None, (x, y), {})

        def once(state, _):
            state = kernel.sample(state, (x, y), {})
            return state, state.potential_energy

        return jax.lax.scan(once, state, None, length=10)[1]

    return jax.vmap(chain)(keys)


def arguments():
    """Return data and keys."""
    x = jax.random.normal(jax.random.key(0), (100, 12))
    y = (x[:, 0] - 2 * x[:, 3] > 0).astype(jnp.float32)
    return x, y, jax.random.split(jax.random.PRNGKey(1), 4)


def run(x, y, keys):
    """Return the energies of the chains after their last step."""
    return [float(z) for z in step(x, y, keys)[:, -1]]
