"""Compiles programs with XLA for the CPU and leaves its plans in a folder; run as a script.

    XLA_FLAGS="--xla_dump_to=FOLDER --xla_dump_hlo_as_proto" python xla_plans.py

The flags count only before XLA starts, hence the process of its own.
"""

import jax
from jax import lax
from jax import numpy as jnp


def spec(*dimensions, dtype="float32"):
    return jax.ShapeDtypeStruct(dimensions, dtype)


def train_step(parameters, x, y):
    def loss(parameters):
        hidden = x
        for w in parameters[:-1]:
            hidden = jnp.tanh(hidden @ w)
        return ((hidden @ parameters[-1] - y) ** 2).mean()

    gradients = jax.grad(loss)(parameters)
    return [w - 0.1 * g for w, g in zip(parameters, gradients, strict=True)]


def nested_loops(h, xs):
    def inner(i, state):
        a, b, c = state
        return b, a + c[i], c

    def outer(h, x):
        a, b, _ = lax.fori_loop(0, 5, inner, (h, x, x))
        return jnp.tanh(a @ b), a.sum(axis=0)

    return lax.scan(outer, h, xs)


def choose(i, x, y):
    branches = [lambda x, y: (x @ y, x), lambda x, y: (x, y), lambda x, y: ((x + y).T, x)]
    return lax.switch(i, branches, x, y)


def update_cache(cache, x, i):
    cache = lax.dynamic_update_slice(cache, x, (i, 0))
    scores = cache @ cache.T
    return cache, (scores @ scores).sum(axis=0), jnp.sort(scores @ cache, axis=1)


def histogram(x, indices):
    counts = jnp.zeros(64).at[indices].add(x)
    return lax.while_loop(lambda s: s[0].sum() < 100, lambda s: (s[0] * 2, s[1] + 1), (counts, 0))


PROGRAMS = [
    (train_step, ([spec(64, 64)] * 4, spec(256, 64), spec(256, 64)), (0,)),
    (nested_loops, (spec(32, 32), spec(20, 32, 32)), ()),
    (choose, (spec(dtype="int32"), spec(48, 48), spec(48, 48)), ()),
    (update_cache, (spec(128, 64), spec(4, 64), spec(dtype="int32")), (0,)),
    (histogram, (spec(500), spec(500, dtype="int32")), ()),
]

if __name__ == "__main__":
    for program, arguments, donated in PROGRAMS:
        jax.jit(program, donate_argnums=donated).lower(*arguments).compile()
