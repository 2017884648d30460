"""A tree search of mctx with a learned model of a small game, for 32 positions at once."""

import jax
import jax.numpy as jnp
import mctx

ACTIONS, WIDTH = 6, 32


def heads(weights, hidden):
    hidden = jnp.tanh(hidden @ weights["hidden"])
    return hidden @ weights["policy"], jnp.tanh(hidden @ weights["value"])[:, 0]


def model(weights, key, action, hidden):
    moved = jnp.tanh(hidden @ weights["move"] + weights["actions"][action])
    prior, value = heads(weights, moved)
    reward = moved @ weights["reward"]
    discount = jnp.full_like(reward, 0.97)
    out = mctx.RecurrentFnOutput(
        reward=reward, discount=discount, prior_logits=prior, value=value
    )  # fmt: skip
    return out, moved


@jax.jit
def step(weights, key, hidden):
    prior, value = heads(weights, hidden)
    root = mctx.RootFnOutput(prior_logits=prior, value=value, embedding=hidden)
    out = mctx.gumbel_muzero_policy(weights, key, root, model, num_simulations=24)
    return out.action, out.action_weights, out.search_tree.summary().value


def arguments():
    """Return weights, a key and positions."""
    sizes = {
        "hidden": (WIDTH, WIDTH), "policy": (WIDTH, ACTIONS), "value": (WIDTH, 1),
        "move": (WIDTH, WIDTH), "actions": (ACTIONS, WIDTH), "reward": (WIDTH,),
    }  # fmt: skip
    keys = jax.random.split(jax.random.key(0), len(sizes))
    weights = {
        name: 0.3 * jax.random.normal(key, size)
        for key, (name, size) in zip(keys, sizes.items(), strict=True)
    }
    return weights, jax.random.key(1), jax.random.normal(jax.random.key(2), (32, WIDTH))


def run(weights, key, hidden):
    """Return actions and values."""
    action, share, value = step(weights, key, hidden)
    return [float(x) for x in (*action, *share[:3].ravel(), *value)]
