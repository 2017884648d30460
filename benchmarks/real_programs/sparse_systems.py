"""Sparse matrices of jax.experimental: conjugate gradients on a grid, and ranks of pages."""

import jax
import jax.numpy as jnp
from jax.experimental import sparse

SIDE, PAGES, LINKS = 40, 1000, 8000


@jax.jit
def step(laplacian, links, right):
    field, _ = jax.scipy.sparse.linalg.cg(lambda x: laplacian @ x, right, tol=1e-5, maxiter=100)

    def turn(ranks, _):
        ranks = 0.85 * (links @ ranks) + 0.15 / PAGES
        return ranks / ranks.sum(), None

    ranks, _ = jax.lax.scan(turn, jnp.full(PAGES, 1 / PAGES), None, length=30)
    many = links @ jnp.outer(ranks, jnp.arange(8.0))
    return field, ranks, many.sum(0)


def arguments():
    """Return the Laplacian, links of pages by the column they leave, and a right side."""
    cells = jnp.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    pairs = [(cells[1:], cells[:-1]), (cells[:, 1:], cells[:, :-1])]
    one = jnp.concatenate([a.ravel() for a, _ in pairs])
    two = jnp.concatenate([b.ravel() for _, b in pairs])
    rows = jnp.concatenate([one, two, cells.ravel()])
    columns = jnp.concatenate([two, one, cells.ravel()])
    values = jnp.concatenate([-jnp.ones(2 * len(one)), jnp.full(SIDE * SIDE, 4.0)])
    shape = (SIDE * SIDE, SIDE * SIDE)
    laplacian = sparse.BCOO((values, jnp.stack([rows, columns], 1)), shape=shape)
    ends = jax.random.randint(jax.random.key(0), (LINKS, 2), 0, PAGES)
    leaving = jnp.zeros(PAGES).at[ends[:, 1]].add(1.0)
    links = sparse.BCOO((1.0 / leaving[ends[:, 1]], ends), shape=(PAGES, PAGES))
    return laplacian, links, jax.random.normal(jax.random.key(1), (SIDE * SIDE,))


def run(laplacian, links, right):
    """Return norms, and the ranks of some pages."""
    field, ranks, many = step(laplacian, links, right)
    return [float(jnp.linalg.norm(field)), *(float(x) for x in ranks[:10]), float(many[-1])]
