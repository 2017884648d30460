"""Typed keys that go in, are split inside, and come out again; dropout by one of them."""

import jax
import jax.numpy as jnp

import lowtide


@lowtide.jit
def noisy(key, x):
    key, now = jax.random.split(key)
    kept = jax.random.bernoulli(now, 0.8, x.shape)
    return key, jnp.where(kept, x / 0.8, 0)


key, x = jax.random.key(7), jnp.ones((64, 64))
for _ in range(5):
    key, y = noisy(key, x)
    print(float(y.mean()))
print(jax.random.key_data(key).tolist(), key.dtype)
several = lowtide.jit(jax.vmap(jax.random.uniform))(jax.random.split(key, 3))
print([float(u) for u in several])
