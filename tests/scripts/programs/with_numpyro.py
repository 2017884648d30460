"""Variational inference of numpyro, then steps of NUTS, with typed keys in their states.

needs: numpyro
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import lowtide


def model(y):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    scale = numpyro.sample("scale", dist.HalfNormal(2))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


y = jnp.array([1.2, 0.8, 1.9, 1.1, 0.4, 1.5])
guide = AutoNormal(model)
svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
state = svi.init(jax.random.key(0), y)
update = lowtide.jit(svi.update, output="jax")
for i in range(60):
    state, loss = update(state, y)
    if i % 20 == 0:
        print(round(float(loss), 3))
print(sorted(k for k in svi.get_params(state)))

kernel = NUTS(model)
state = kernel.init(jax.random.key(1), 5, None, (y,), {})
sample = lowtide.jit(lambda state: kernel.sample(state, (y,), {}), output="jax")
for _ in range(10):
    state = sample(state)
print(int(state.i), bool(jnp.isfinite(state.potential_energy)))
