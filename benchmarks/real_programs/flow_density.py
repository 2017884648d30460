"""A normalizing flow of flowjax, trained 3 steps on a crescent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow
from paramax import NonTrainable, unwrap

optimizer = optax.adam(1e-3)


@eqx.filter_jit
def step(params, static, state, x):
    def loss(params):
        return -unwrap(eqx.combine(params, static)).log_prob(x).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(params, updates), state, value


def arguments():
    """Return weights, the rest of the flow, the optimizer's state and points."""
    flow = masked_autoregressive_flow(
        jax.random.key(0),
        base_dist=Normal(jnp.zeros(2)),
        transformer=RationalQuadraticSpline(knots=8, interval=4),
        flow_layers=4,
    )
    fixed = lambda x: isinstance(x, NonTrainable)  # noqa: E731
    params, static = eqx.partition(flow, eqx.is_inexact_array, is_leaf=fixed)
    a, b = jax.random.normal(jax.random.key(1), (2, 256))
    return params, static, optimizer.init(params), jnp.stack([a, 0.5 * b + a**2 - 1], -1)


def run(params, static, state, x):
    """Return the losses of 3 steps."""
    losses = []
    for _ in range(3):
        params, state, value = step(params, static, state, x)
        losses.append(value)
    return [float(x) for x in losses]
