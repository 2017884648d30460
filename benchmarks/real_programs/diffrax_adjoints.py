"""Gradients of a neural SDE by diffrax's adjoint that solves backwards, and by checkpoints."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp


class _Drift(eqx.Module):
    layers: eqx.nn.MLP

    def __call__(self, t, y, args):
        return self.layers(jnp.concatenate([y, jnp.sin(t)[None]])) - y


def _terminal(drift, start, key, adjoint):
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=2e-2, shape=(4,), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(drift),
        diffrax.ControlTerm(lambda t, y, args: 0.2 * jnp.diag(jnp.cos(y)), noise),
    )
    return diffrax.diffeqsolve(
        terms, diffrax.Heun(), 0.0, 1.0, dt0=0.04, y0=start, adjoint=adjoint
    ).ys[-1]


@eqx.filter_jit
def step(drift, starts, keys):
    def loss(drift, adjoint):
        found = jax.vmap(lambda y, key: _terminal(drift, y, key, adjoint))(starts, keys)
        return jnp.mean(jnp.sum(found**2, -1))

    backwards = eqx.filter_value_and_grad(loss)(drift, diffrax.BacksolveAdjoint())
    again = eqx.filter_grad(loss)(drift, diffrax.RecursiveCheckpointAdjoint(checkpoints=4))
    return *backwards, again


def arguments():
    """Return a drift, beginnings and keys."""
    keys = jax.random.split(jax.random.key(0), 3)
    drift = _Drift(eqx.nn.MLP(5, 4, 16, 2, activation=jnp.tanh, key=keys[0]))
    return drift, jax.random.normal(keys[1], (32, 4)), jax.random.split(keys[2], 32)


def run(drift, starts, keys):
    """Return the loss, and parts of both gradients."""
    loss, one, other = step(drift, starts, keys)
    return [float(loss), *(float(jnp.sum(jnp.abs(x))) for x in jax.tree.leaves((one, other)))]
