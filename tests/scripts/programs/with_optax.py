"""A schedule, clipping and momentum of optax; its state is a nest of named tuples.

needs: optax
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

import lowtide

rate = optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 30)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rate, momentum=0.9))
target = np.linspace(-1, 1, 20, dtype=np.float32)


@partial(lowtide.jit, donate_argnums=(0, 1), output="jax")
def step(params, state):
    value, grads = jax.value_and_grad(lambda p: jnp.sum((p - target) ** 2))(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


params = jnp.zeros(20)
state = optimizer.init(params)
for i in range(30):
    params, state, value = step(params, state)
    if i % 10 == 9:
        print(float(value))
