"""Errors of all kinds in and around calls; the program goes on after each."""

import jax.numpy as jnp
import numpy as np

import lowtide


def careful(x, flag):
    if x.shape[0] > 4:
        raise ValueError("too long")
    return x / flag


run = lowtide.jit(careful)
for size, flag in ((3, 2.0), (9, 2.0), (4, 0.0)):
    try:
        print(np.asarray(run(np.ones(size, np.float32), flag)).tolist())
    except ValueError as error:
        print("refused:", error)
try:
    run("text", 1.0)
except TypeError:
    print("no array")
try:
    lowtide.jit(lambda x, y: x @ y)(jnp.ones((2, 3)), jnp.ones((2, 3)))
except TypeError:
    print("no fit")
try:
    lowtide.jit(lambda x: bool(x > 0))(1.0)
except Exception as error:
    print(type(error).__name__)
print(float(lowtide.jit(lambda x: x + 1)(1.0)))
