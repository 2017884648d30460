"""Neighbours by a tree of jaxkd, counts within a radius, and ten rounds of k-means."""

import jax
import jax.numpy as jnp
import jaxkd as jk


@jax.jit
def step(points, queries, means):
    tree = jk.build_tree(points)
    _, apart = jk.query_neighbors(tree, queries, k=5)
    near = jk.count_neighbors(tree, queries, r=0.5)

    def better(means, _):
        _, apart = jk.query_neighbors(jk.build_tree(means), points, k=1)
        labels = jk.query_neighbors(jk.build_tree(means), points, k=1)[0][:, 0]
        total = jnp.zeros_like(means).at[labels].add(points)
        count = jnp.zeros(means.shape[0]).at[labels].add(1.0)
        return total / jnp.maximum(count, 1.0)[:, None], jnp.sum(apart)

    means, losses = jax.lax.scan(better, means, None, length=10)
    return jnp.sum(apart), jnp.sum(near), losses


def arguments():
    """Return points, queries and the first means."""
    points = jax.random.normal(jax.random.key(0), (1000, 3))
    return points, jax.random.normal(jax.random.key(1), (200, 3)), points[:8]


def run(points, queries, means):
    """Return the distances, the count, and the losses of the rounds."""
    apart, near, losses = step(points, queries, means)
    return [float(apart), float(near), *[float(x) for x in losses]]
