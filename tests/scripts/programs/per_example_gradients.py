"""Gradients of each example by vmap, clipped and summed."""

import jax
import jax.numpy as jnp
import numpy as np

import lowtide

random = np.random.default_rng(3)
w = random.standard_normal((10, 3)).astype(np.float32)
x = random.standard_normal((50, 10)).astype(np.float32)
labels = random.integers(0, 3, 50)


def loss(w, x, label):
    return -jax.nn.log_softmax(x @ w)[label]


@lowtide.jit
def clipped(w, x, labels):
    grads = jax.vmap(jax.grad(loss), (None, 0, 0))(w, x, labels)
    norms = jnp.sqrt(jnp.sum(grads**2, (1, 2)))
    return jnp.sum(grads / jnp.maximum(norms, 1)[:, None, None], 0), norms


total, norms = clipped(w, x, labels)
print(float(jnp.abs(total).sum()), float(norms.max()))
