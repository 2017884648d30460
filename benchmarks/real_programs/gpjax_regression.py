"""A Gaussian process of GPJax: descent on its marginal likelihood, and a prediction."""

import equinox as eqx
import gpjax as gpx
import jax
import jax.numpy as jnp

kernel = gpx.kernels.Matern52() + gpx.kernels.Periodic()
prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Constant(), kernel=kernel)
trained, rest = eqx.partition(prior * gpx.likelihoods.Gaussian(), eqx.is_inexact_array)


@jax.jit
def step(trained, x, y, at):
    data = gpx.Dataset(X=x, y=y)

    def loss(trained):
        return -gpx.objectives.conjugate_mll(eqx.combine(trained, rest), data)

    def descend(trained, _):
        value, grads = jax.value_and_grad(loss)(trained)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, trained, grads), value

    trained, losses = jax.lax.scan(descend, trained, length=6)
    found = eqx.combine(trained, rest).condition(data).predict(at)
    return losses, found.mean


def arguments():
    """Return parameters, points, noisy values, and points to predict."""
    x = jnp.linspace(-3.0, 3.0, 200)[:, None]
    y = jnp.sin(4 * x) + jnp.cos(2 * x) + 0.3 * jax.random.normal(jax.random.key(0), x.shape)
    return trained, x, y, jnp.linspace(-3.2, 3.2, 50)[:, None]


def run(trained, x, y, at):
    """Return losses and some predictions."""
    losses, mean = step(trained, x, y, at)
    return [float(v) for v in losses] + [float(v) for v in mean[::10]]
