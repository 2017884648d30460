"""A filter over a series of measurements, with small matrices at each step."""

import jax
import jax.numpy as jnp
import numpy as np

import lowtide

move = jnp.array([[1.0, 1.0], [0.0, 1.0]])
see = jnp.array([[1.0, 0.0]])


@lowtide.jit
def track(measured):
    def step(state, z):
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + 0.01 * jnp.eye(2)
        gain = cov @ see.T @ jnp.linalg.inv(see @ cov @ see.T + 0.5)
        mean = mean + (gain @ (z[None] - see @ mean)).ravel()
        cov = (jnp.eye(2) - gain @ see) @ cov
        return (mean, cov), mean

    return jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measured)


(mean, cov), path = track(np.cumsum(np.ones(40, np.float32)))
print([float(v) for v in mean], float(jnp.trace(cov)), float(path[5, 0]))
