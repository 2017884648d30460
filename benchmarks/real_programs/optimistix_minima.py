"""Minima, roots and fixed points of optimistix, for 8 problems at once."""

import jax
import jax.numpy as jnp
import optimistix as optx


def valley(x, scale):
    return jnp.sum(scale * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def crossing(x, scale):
    return {"a": x["a"] ** 2 + scale * x["b"] - 4.0, "b": jnp.exp(x["a"]) + x["b"] - 1.0}


@jax.jit
@jax.vmap
def step(scale):
    start = jnp.full(5, -1.0)
    quasi = optx.minimise(valley, optx.BFGS(1e-4, 1e-4), start, scale, max_steps=300, throw=False)
    conjugate = optx.minimise(
        valley, optx.NonlinearCG(1e-3, 1e-3), start, scale, max_steps=400, throw=False
    )
    simplex = optx.minimise(
        valley, optx.NelderMead(1e-3, 1e-3), start[:2], scale, max_steps=300, throw=False
    )
    root = optx.root_find(
        crossing,
        optx.Dogleg(1e-4, 1e-4),
        {"a": jnp.array(1.0), "b": jnp.array(-1.0)},
        scale,
        throw=False,
    )
    fixed = optx.fixed_point(
        lambda x, scale: jnp.cos(x / scale), optx.FixedPointIteration(1e-4, 1e-4), start, scale
    )
    values = [valley(x.value, scale) for x in (quasi, conjugate, simplex)]
    return jnp.stack([quasi.value.sum(), *values, root.value["a"], fixed.value[0]])


def arguments():
    """Return the scales of the problems."""
    return (jnp.linspace(2.0, 9.0, 8),)


def run(scales):
    """Return sums of the minima that are sure, roots and fixed points."""
    found = step(scales)
    return [float(x) for x in found[:, jnp.array([0, 4, 5])].ravel()]
