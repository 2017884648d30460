"""The no-U-turn sampler of blackjax on a banana, its step and mass adapted in 60 steps."""

import blackjax
import jax
import jax.numpy as jnp


def density(position):
    x, y = position["x"], position["y"]
    return -0.5 * x**2 - 2.0 * (y - x**2) ** 2


@jax.jit
def step(key, position):
    warm, key = jax.random.split(key)
    adapt = blackjax.window_adaptation(blackjax.nuts, density, max_num_doublings=4)
    (state, given), _ = adapt.run(warm, position, num_steps=60)
    kernel = blackjax.nuts(density, **given).step

    def once(state, key):
        state, info = kernel(key, state)
        return state, (state.position["y"], info.num_integration_steps)

    return given["step_size"], jax.lax.scan(once, state, jax.random.split(key, 40))[1]


def arguments():
    """Return a key and the first position."""
    return jax.random.key(0), {"x": jnp.array(0.5), "y": jnp.array(-0.5)}


def run(key, position):
    """Return the step, the mean of a coordinate and the count of small steps."""
    size, (places, steps) = step(key, position)
    return [float(size), float(places.mean()), float(steps.sum())]
