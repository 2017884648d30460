"""Low-rank adaptation by quax: a network of equinox whose weights have updates of rank 4."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import quax
from quax.examples import lora

optimizer = optax.adam(3e-3)
plain = eqx.nn.MLP(64, 8, 128, 2, key=jax.random.key(0))
adapted = lora.loraify(plain, rank=4, scale=0.1, key=jax.random.key(1))
trained, FROZEN = eqx.partition(adapted, eqx.is_array)


@jax.jit
def step(trained, state, x, y):
    def loss(trained):
        network = eqx.combine(trained, FROZEN)
        return jnp.mean((quax.quaxify(lambda m, v: jax.vmap(m)(v))(network, x) - y) ** 2)

    value, grads = jax.value_and_grad(loss)(trained)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(trained, updates), state, value


def arguments():
    """Return what is trained, the optimizer's state, and rows."""
    x = jax.random.normal(jax.random.key(2), (256, 64))
    return trained, optimizer.init(trained), x, jnp.tanh(x[:, :8] * x[:, 8:16])


def run(trained, state, x, y):
    """Return the losses of 6 steps."""
    losses = []
    for _ in range(6):
        trained, state, value = step(trained, state, x, y)
        losses.append(value)
    return [float(v) for v in losses]
