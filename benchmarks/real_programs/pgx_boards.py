"""Random legal moves on 64 boards of Othello and of Connect Four in pgx, ten plies each."""

import jax
import jax.numpy as jnp
import pgx

GAMES = [pgx.make("othello"), pgx.make("connect_four")]


def played(game, key):
    def ply(state, key):
        action = jax.random.categorical(key, jnp.where(state.legal_action_mask, 0.0, -1e9), -1)
        return jax.vmap(game.step)(state, action), None

    keys = jax.random.split(key, 64)
    return jax.lax.scan(ply, jax.vmap(game.init)(keys), jax.random.split(key, 10))[0]


@jax.jit
def step(key):
    found = []
    for game in GAMES:
        state = played(game, key)
        stones = jnp.abs(state.observation.astype(jnp.float32)).sum()
        found += [state.legal_action_mask.sum(), stones, state.rewards.sum()]
    return found


def arguments():
    """Return a key."""
    return (jax.random.key(0),)


def run(key):
    """Return how many moves are legal, the stones, and the rewards of each game."""
    return [float(x) for x in step(key)]
