"""Numbers of 64 bits, set for the whole script."""

import jax
import jax.numpy as jnp
import numpy as np

import lowtide

jax.config.update("jax_enable_x64", True)


@lowtide.jit
def series(n):
    k = jnp.arange(100_000, dtype=jnp.int64)
    return jnp.sum(jnp.where(k < n, (-1.0) ** k / (2 * k + 1), 0)) * 4


value = series(100_000)
print(value.dtype, abs(float(value) - np.pi) < 1.1e-5, f"{float(value):.9f}")
print(lowtide.jit(lambda x: x * 2)(2**40), lowtide.jit(lambda x: x + 0.5)(np.float32(1)).dtype)
