# %% [markdown]
# A notebook, converted: cells that define names again, and look at what the last one made.

# %%
import jax
import jax.numpy as jnp

import lowtide

# %%
f = lowtide.jit(lambda x: jnp.exp(-x) * x)
xs = jnp.linspace(0, 5, 50)
f(xs)

# %%
f = lowtide.jit(lambda x: jnp.exp(-x) * x**2)
ys = f(xs)
print(float(ys.max()), int(ys.argmax()))

# %%
df = lowtide.jit(jax.vmap(jax.grad(lambda x: jnp.exp(-x) * x**2)))
for _ in range(3):
    print(float(df(xs).sum()))

# %%
del f
print([float(x) for x in ys[::10]])
