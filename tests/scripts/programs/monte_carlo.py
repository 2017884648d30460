"""Random points in a square; keys are folded with the number of the round."""

import jax
import jax.numpy as jnp

import lowtide


@lowtide.jit
def hits(key, number):
    points = jax.random.uniform(jax.random.fold_in(key, number), (20_000, 2))
    return jnp.sum(jnp.sum(points**2, 1) < 1)


key = jax.random.PRNGKey(11)
counts = [int(hits(key, i)) for i in range(5)]
print(counts, 4 * sum(counts) / 100_000)
