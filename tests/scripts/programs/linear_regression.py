"""Least squares by gradient descent, with donated weights."""

import jax
import jax.numpy as jnp
import numpy as np

import lowtide

random = np.random.default_rng(0)
x = random.standard_normal((256, 8)).astype(np.float32)
y = x @ np.arange(8, dtype=np.float32) + 3


def loss(weights, x, y):
    return jnp.mean((x @ weights["w"] + weights["b"] - y) ** 2)


@lowtide.jit
def step(weights, x, y):
    value, slope = jax.value_and_grad(loss)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, slope), value


weights = {"w": np.zeros(8, np.float32), "b": np.float32(0)}
for epoch in range(60):
    weights, value = step(weights, x, y)
    if epoch % 20 == 0:
        print(epoch, float(value))
print(np.asarray(weights["w"]).round(2).tolist(), float(weights["b"]))
