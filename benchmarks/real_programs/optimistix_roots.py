"""Roots of optimistix: many starts of Newton, Chord and Bisection, and an implicit gradient."""

import jax
import jax.numpy as jnp
import optimistix as optx


def kepler(anomaly, args):
    """Return what is 0 where the anomaly of an orbit fits its mean."""
    mean, eccentricity = args
    return anomaly - eccentricity * jnp.sin(anomaly) - mean


@jax.jit
def step(means, eccentricities):
    newton, chord = optx.Newton(1e-6, 1e-6), optx.Chord(1e-6, 1e-6)
    bisection = optx.Bisection(1e-5, 1e-5)

    def solved(solver, mean, eccentricity, **options):
        args = (mean, eccentricity)
        found = optx.root_find(kepler, solver, mean, args, max_steps=64, throw=False, **options)
        return found.value

    def slope(mean, eccentricity):
        return jax.grad(lambda e: solved(newton, mean, e))(eccentricity)

    within = {"lower": -1.0, "upper": 8.0}
    return (
        jax.vmap(lambda m, e: solved(newton, m, e))(means, eccentricities),
        jax.vmap(lambda m, e: solved(chord, m, e))(means, eccentricities),
        jax.vmap(lambda m, e: solved(bisection, m, e, options=within))(means, eccentricities),
        jax.vmap(slope)(means, eccentricities),
    )


def arguments():
    """Return mean anomalies and eccentricities."""
    return jnp.linspace(0.1, 6.0, 256), jnp.linspace(0.05, 0.6, 256)


def run(means, eccentricities):
    """Return some of the roots, and their slopes."""
    return [float(y) for x in step(means, eccentricities) for y in x[::16]]
