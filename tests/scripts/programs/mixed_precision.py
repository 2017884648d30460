"""Products in bfloat16, sums in float32."""

import jax.numpy as jnp
import numpy as np

import lowtide

random = np.random.default_rng(8)
x = jnp.asarray(random.standard_normal((64, 64)), jnp.bfloat16)


@lowtide.jit
def mixed(x):
    y = jnp.matmul(x, x.T, preferred_element_type=jnp.float32)
    return y.astype(jnp.bfloat16), jnp.trace(y), x.astype(jnp.float8_e4m3fn)


low, total, small = mixed(x)
print(low.dtype, float(total), small.dtype, float(np.asarray(small, np.float32).sum()))
