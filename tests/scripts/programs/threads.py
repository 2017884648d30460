"""One function from many threads, with types that some of them bring first."""

from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np

import lowtide

norm = lowtide.jit(lambda x: jnp.sqrt(jnp.sum(x * x)))


def work(i):
    x = np.full((i % 3 + 1, 100), i, np.float32)
    return sum(float(norm(x)) for _ in range(20))


with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(work, range(24))))
