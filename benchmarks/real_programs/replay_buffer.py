"""Deep Q-learning with a replay buffer on the device: 50 steps in a scan, a donated state."""

import functools

import jax
import jax.numpy as jnp
import optax

ROWS, BATCH = 2000, 32
optimizer = optax.adam(1e-3)


def values(params, state):
    x = jax.nn.relu(state @ params[0] + params[1])
    return jax.nn.relu(x @ params[2] + params[3]) @ params[4] + params[5]


def moved(state, action):
    speed = state[1] + 0.001 * (action - 1) - 0.0025 * jnp.cos(3 * state[0])
    speed = jnp.clip(speed, -0.07, 0.07)
    place = jnp.clip(state[0] + speed, -1.2, 0.6)
    is_done = place >= 0.5
    after = jnp.where(is_done, jnp.array([-0.5, 0.0]), jnp.stack([place, speed]))
    return after, jnp.stack([action.astype(jnp.float32), is_done - 1.0, is_done * 1.0, 1.0])


def loss(params, target, rows):
    wanted = rows[:, 5] + 0.99 * (1 - rows[:, 6]) * values(target, rows[:, 2:4]).max(-1)
    chosen = rows[:, 4].astype(int)[:, None]
    found = jnp.take_along_axis(values(params, rows[:, :2]), chosen, 1)[:, 0]
    return optax.huber_loss(found, jax.lax.stop_gradient(wanted)).mean()


def learned(carry, key):
    params, target, moments, buffer, count, state = carry
    explore, which, sample = jax.random.split(key, 3)
    best = jnp.argmax(values(params, state))
    is_random = jax.random.uniform(explore) < 0.1
    action = jnp.where(is_random, jax.random.randint(which, (), 0, 3), best)
    after, rest = moved(state, action)
    row = jnp.concatenate([state, after, rest])
    buffer = jax.lax.dynamic_update_slice(buffer, row[None], (count % ROWS, 0))
    weights = jnp.where(buffer[:, 7] > 0, jnp.abs(buffer[:, 5]) + 0.01, -1e9)
    rows = buffer[jax.random.categorical(sample, weights, shape=(BATCH,))]
    value, grads = jax.value_and_grad(loss)(params, target, rows)
    updates, moments = optimizer.update(grads, moments)
    params = optax.apply_updates(params, updates)
    target = jax.lax.cond(count % 20 == 0, lambda: params, lambda: target)
    return (params, target, moments, buffer, count + 1, after), value


@functools.partial(jax.jit, donate_argnums=0)
def step(carry, key):
    return jax.lax.scan(learned, carry, jax.random.split(key, 50))


def begun():
    """Return the state of a new learner."""
    keys = jax.random.split(jax.random.key(0), 3)
    sizes = [(2, 64), (64, 64), (64, 3)]
    params = []
    for key, (rows, columns) in zip(keys, sizes, strict=True):
        params += [jax.random.normal(key, (rows, columns)) / rows**0.5, jnp.zeros(columns)]
    target = jax.tree.map(jnp.array, params)
    buffer = jnp.zeros((ROWS, 8))
    return params, target, optimizer.init(params), buffer, jnp.int32(0), jnp.array([-0.5, 0.0])


def arguments():
    """Return the state, and a key."""
    return begun(), jax.random.key(1)


def run(_, key):
    """Return losses out of two calls."""
    state, first = step(begun(), key)
    _, second = step(state, key)
    return [float(first[0]), float(first[10]), float(second[-1])]
