"""Proximal policy optimization: poles of gymnax, a network of flax, choices of distrax."""

import distrax
import flax.linen as nn
import gymnax
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

ENVIRONMENTS, STEPS = 16, 32
env, env_params = gymnax.make("CartPole-v1")


class Policy(nn.Module):
    """Logits of actions, and the value of where one is."""

    @nn.compact
    def __call__(self, x):
        """Return both."""
        a = nn.tanh(nn.Dense(64)(nn.tanh(nn.Dense(64)(x))))
        b = nn.tanh(nn.Dense(64)(nn.tanh(nn.Dense(64)(x))))
        return distrax.Categorical(logits=nn.Dense(2)(a)), nn.Dense(1)(b)[..., 0]


def advantages(rewards, values, done, last):
    def back(carry, now):
        total, following = carry
        reward, value, over = now
        total = reward + 0.99 * following * (1 - over) - value + 0.94 * (1 - over) * total
        return (total, value), total

    begin = (jnp.zeros_like(last), last)
    return jax.lax.scan(back, begin, (rewards, values, done), reverse=True)[1]


def improve(train, batch):
    seen, action, before, wanted, gain = batch

    def loss(params):
        choice, value = train.apply_fn(params, seen)
        ratio = jnp.exp(choice.log_prob(action) - before)
        normal = (gain - gain.mean()) / (gain.std() + 1e-8)
        least = jnp.minimum(ratio * normal, jnp.clip(ratio, 0.8, 1.2) * normal).mean()
        return 0.5 * ((value - wanted) ** 2).mean() - least - 0.01 * choice.entropy().mean()

    value, grads = jax.value_and_grad(loss)(train.params)
    return train.apply_gradients(grads=grads), value


@jax.jit
def step(train, key, seen, state):
    def act(carry, key):
        seen, state = carry
        choice, value = train.apply_fn(train.params, seen)
        a, b = jax.random.split(key)
        action, chance = choice.sample_and_log_prob(seed=a)
        keys = jax.random.split(b, ENVIRONMENTS)
        move = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        after, state, reward, *done, _ = move(keys, state, action, env_params)
        over = done[0].astype(jnp.float32)
        return (after, state), (seen, action, chance, value, reward, over)

    key, a, b = jax.random.split(key, 3)
    (seen, state), way = jax.lax.scan(act, (seen, state), jax.random.split(a, STEPS))
    was, action, chance, value, reward, over = way
    gain = advantages(reward, value, over, train.apply_fn(train.params, seen)[1])
    batch = (was, action, chance, value + gain, gain)
    flat = jax.tree.map(lambda x: x.reshape(ENVIRONMENTS * STEPS, *x.shape[2:]), batch)

    def epoch(train, key):
        order = jax.random.permutation(key, ENVIRONMENTS * STEPS)
        parts = jax.tree.map(lambda x: x[order].reshape(4, -1, *x.shape[1:]), flat)
        return jax.lax.scan(improve, train, parts)

    train, losses = jax.lax.scan(epoch, train, jax.random.split(b, 4))
    return train, key, seen, state, losses.mean()


def arguments():
    """Return the network's state, a key, and where the environments begin."""
    seen, state = jax.vmap(env.reset, in_axes=(0, None))(
        jax.random.split(jax.random.key(1), ENVIRONMENTS), env_params
    )
    network = Policy()
    params = network.init(jax.random.key(0), seen)
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(2.5e-4))
    train = TrainState.create(apply_fn=network.apply, params=params, tx=tx)
    return train, jax.random.key(2), seen, state


def run(train, key, seen, state):
    """Return the losses of 3 updates."""
    losses = []
    for _ in range(3):
        train, key, seen, state, value = step(train, key, seen, state)
        losses.append(value)
    return [float(x) for x in losses]
