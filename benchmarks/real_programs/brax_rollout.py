"""Inverted pendulums of brax, 8 of them, 20 steps with random actions."""

import jax
import jax.numpy as jnp
from brax import envs

env = envs.get_environment("inverted_pendulum", backend="generalized")
reset = jax.jit(jax.vmap(env.reset))


@jax.jit
def step(state, actions):
    def move(state, action):
        state = jax.vmap(env.step)(state, action)
        return state, state.reward

    state, rewards = jax.lax.scan(move, state, actions)
    return state.obs, rewards


def arguments():
    """Return the beginning and actions."""
    state = reset(jax.random.split(jax.random.key(0), 8))
    return state, 0.1 * jax.random.normal(jax.random.key(1), (20, 8, env.action_size))


def run(state, actions):
    """Return rewards, and what is seen in the end."""
    seen, rewards = step(state, actions)
    return [float(x) for x in jnp.concatenate([rewards.sum(0), seen.ravel()])]
