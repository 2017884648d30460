"""A light curve of a star by quasiseparable kernels of tinygp, fitted in 6 steps."""

import jax
import jax.numpy as jnp
import optax
import tinygp
from tinygp.kernels import quasisep

optimizer = optax.adam(0.05)


def process(params, t):
    slow = quasisep.SHO(omega=jnp.exp(params["slow"]), quality=0.7, sigma=jnp.exp(params["size"]))
    quick = quasisep.SHO(omega=jnp.exp(params["quick"]), quality=8.0, sigma=0.5)
    return tinygp.GaussianProcess(
        slow + quick * quasisep.Matern52(scale=4.0), t, diag=jnp.exp(params["noise"])
    )


@jax.jit
def step(params, state, t, y):
    def loss(params):
        return -process(params, t).log_probability(y) / len(t)

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return logarithms of parameters, the optimizer's state, times and values."""
    t = jnp.sort(jax.random.uniform(jax.random.key(0), (300,), maxval=50.0))
    y = jnp.sin(t) + 0.3 * jnp.sin(5 * t) + 0.1 * jax.random.normal(jax.random.key(1), (300,))
    params = {"slow": 0.0, "quick": 1.5, "size": 0.0, "noise": -2.0}
    params = jax.tree.map(jnp.asarray, params)
    return params, optimizer.init(params), t, y


def run(params, state, t, y):
    """Return the losses of 6 steps."""
    found = []
    for _ in range(6):
        params, state, value = step(params, state, t, y)
        found.append(float(value))
    return found
