"""Static arguments by position and by name: a program for each value, none twice."""

from functools import partial

import jax.numpy as jnp
import numpy as np

import lowtide

traced = []


@partial(lowtide.jit, static_argnums=1, static_argnames="mode")
def power(x, n, *, mode="up"):
    traced.append((n, mode))
    return x**n if mode == "up" else x ** (1 / n)


x = np.arange(1, 5, dtype=np.float32)
for n, mode in ((2, "up"), (3, "up"), (2, "down"), (2, "up")):
    print(n, mode, [round(float(v), 4) for v in jnp.asarray(power(x, n, mode=mode))])
print(traced)
