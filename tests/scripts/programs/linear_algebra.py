"""Decompositions that run by LAPACK, put together again."""

import jax.numpy as jnp
import numpy as np

import lowtide

random = np.random.default_rng(5)
a = random.standard_normal((12, 12)).astype(np.float32)


@lowtide.jit
def parts(a):
    values, vectors = jnp.linalg.eigh(a @ a.T)
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    q, r = jnp.linalg.qr(a)
    rebuilt = [(vectors * values) @ vectors.T - a @ a.T, (u * s) @ v - a, q @ r - a]
    return values, s, jnp.linalg.eigvals(a), [jnp.abs(x).max() < 1e-3 for x in rebuilt]


values, s, spectrum, fine = parts(a)
print([round(float(x), 2) for x in values], float(s.sum()), [bool(x) for x in fine])
print(sorted(round(float(abs(x)), 3) for x in spectrum))
