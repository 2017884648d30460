"""Actors and learners with V-trace of rlax, a recurrent core of haiku unrolled over 20 steps."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax
import rlax

ACTIONS = 5


def forward(observations, first):
    x = jax.nn.relu(hk.BatchApply(hk.Linear(64))(observations))
    core = hk.ResetCore(hk.GRU(64))
    x, _ = hk.dynamic_unroll(core, (x, first), core.initial_state(x.shape[1]))
    return hk.BatchApply(hk.Linear(ACTIONS))(x), hk.BatchApply(hk.Linear(1))(x)[..., 0]


network = hk.without_apply_rng(hk.transform(forward))
optimizer = optax.chain(optax.clip_by_global_norm(40.0), optax.rmsprop(5e-4, 0.99, 0.1))


def loss(params, observations, first, actions, behaviour, rewards, discounts):
    scores, values = network.apply(params, observations, first)
    ratio = rlax.categorical_importance_sampling_ratios(scores[:-1], behaviour, actions)
    trace = jax.vmap(rlax.vtrace_td_error_and_advantage, 1, 1)(
        values[:-1], values[1:], rewards, discounts, ratio
    )
    weights = jnp.ones(rewards.shape[0])
    policy = jax.vmap(rlax.policy_gradient_loss, (1, 1, 1, None))
    entropy = jax.vmap(rlax.entropy_loss, (1, None))
    return (
        jnp.mean(policy(scores[:-1], actions, trace.pg_advantage, weights))
        + 0.5 * jnp.mean(trace.errors**2)
        + 0.01 * jnp.mean(entropy(scores[:-1], weights))
    )


@jax.jit
def step(params, state, *batch):
    value, grads = jax.value_and_grad(loss)(params, *batch)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return weights, the optimizer's state and one batch of 20 steps by 16 actors."""
    keys = jax.random.split(jax.random.key(0), 5)
    observations = jax.random.normal(keys[0], (21, 16, 24))
    first = jax.random.bernoulli(keys[1], 0.1, (21, 16))
    actions = jax.random.randint(keys[2], (20, 16), 0, ACTIONS)
    behaviour = jax.random.normal(keys[3], (20, 16, ACTIONS))
    params = network.init(jax.random.key(1), observations, first)
    rewards, discounts = jnp.sin(observations[1:, :, 0]), 0.99 * (1.0 - first[1:])
    return (
        params,
        optimizer.init(params),
        observations,
        first,
        actions,
        behaviour,
        rewards,
        discounts,
    )


def run(params, state, *batch):
    """Return the losses of 4 updates."""
    found = []
    for _ in range(4):
        params, state, value = step(params, state, *batch)
        found.append(float(value))
    return found
