"""The variances of a search adapted by evosax, 20 generations in a scan, for four seeds."""

import jax
import jax.numpy as jnp
from evosax.algorithms import Sep_CMA_ES

strategy = Sep_CMA_ES(population_size=24, solution=jnp.zeros(10))
given = strategy.default_params


def valley(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@jax.jit
@jax.vmap
def step(key, start):
    def generation(state, key):
        a, b = jax.random.split(key)
        asked, state = strategy.ask(a, state, given)
        state, _ = strategy.tell(b, asked, jax.vmap(valley)(asked), state, given)
        return state, state.best_fitness

    state = strategy.init(key, start, given)
    return jax.lax.scan(generation, state, jax.random.split(key, 20))[1]


def arguments():
    """Return keys and beginnings."""
    return jax.random.split(jax.random.key(0), 4), jnp.linspace(-1, 1, 40).reshape(4, 10)


def run(keys, starts):
    """Return the best of each second generation."""
    return [float(x) for x in step(keys, starts)[:, ::2].ravel()]
