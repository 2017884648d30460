"""Double Q-learning of rlax with a network of haiku: 20 updates out of a ring of transitions."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax
import rlax

network = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([128, 128, 6])(x)))
optimizer = optax.rmsprop(1e-3)


def loss(params, target, batch):
    before, action, reward, discount, after = batch
    q = network.apply(params, before)
    chosen, value = network.apply(params, after), network.apply(target, after)
    error = jax.vmap(rlax.double_q_learning)(q, action, reward, discount, value, chosen)
    return jnp.mean(rlax.huber_loss(error))


@jax.jit
def step(params, target, state, ring, key):
    def update(carry, key):
        params, target, state = carry
        rows = jax.random.randint(key, (64,), 0, len(ring[0]))
        value, grads = jax.value_and_grad(loss)(params, target, [x[rows] for x in ring])
        updates, state = optimizer.update(grads, state)
        params = optax.apply_updates(params, updates)
        return (params, optax.incremental_update(params, target, 0.05), state), value

    return jax.lax.scan(update, (params, target, state), jax.random.split(key, 20))


def arguments():
    """Return weights twice, the optimizer's state, transitions and a key."""
    keys = jax.random.split(jax.random.key(0), 4)
    before, after = jax.random.normal(keys[0], (2, 2000, 12))
    action = jax.random.randint(keys[1], (2000,), 0, 6)
    reward = before[:, 0] * (action % 2)
    discount = 0.99 * (jax.random.uniform(keys[2], (2000,)) < 0.95)
    params = network.init(jax.random.PRNGKey(0), before)
    ring = (before, action, reward, discount, after)
    return params, params, optimizer.init(params), ring, keys[3]


def run(params, target, state, ring, key):
    """Return the losses of 20 updates."""
    return [float(x) for x in step(params, target, state, ring, key)[1]]
