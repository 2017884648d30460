"""A module of equinox, whose arrays are parted from what is static.

needs: equinox optax
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import lowtide

model = eqx.nn.MLP(2, 1, 16, 2, key=jax.random.key(0))
arrays, static = eqx.partition(model, eqx.is_array)
optimizer = optax.adam(3e-2)


@lowtide.jit
def step(arrays, state, x, y):
    def loss(arrays):
        return jnp.mean((jax.vmap(eqx.combine(arrays, static))(x)[:, 0] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(arrays)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(arrays, updates), state, value


state = optimizer.init(arrays)
x = jax.random.normal(jax.random.key(1), (64, 2))
y = jnp.sin(x[:, 0]) * x[:, 1]
for i in range(30):
    arrays, state, value = step(arrays, state, x, y)
    if i % 10 == 0:
        print(float(value))
