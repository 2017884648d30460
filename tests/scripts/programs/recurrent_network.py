"""A recurrent network by scan, its gradient, and sequences of several lengths: several programs."""

import jax
import jax.numpy as jnp
import numpy as np

import lowtide

random = np.random.default_rng(1)
w, u = [random.standard_normal((12, 12)).astype(np.float32) * 0.3 for _ in range(2)]


def run(w, u, xs):
    def cell(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h.sum()

    h, sums = jax.lax.scan(cell, jnp.zeros(12), xs)
    return jnp.sum(h**2) + sums.mean()


slope = lowtide.jit(jax.value_and_grad(run, (0, 1)))
for length in (3, 10, 10, 3, 25):
    value, (dw, du) = slope(w, u, np.ones((length, 12), np.float32))
    print(length, float(value), float(abs(dw).sum()), float(abs(du).sum()))
