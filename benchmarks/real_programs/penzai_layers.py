"""Layers of penzai with named axes: a multilayer perceptron trained 6 steps."""

import jax
import jax.numpy as jnp
import optax
from penzai import pz
from penzai.models import simple_mlp

network = simple_mlp.MLP.from_config(
    name="network", init_base_rng=jax.random.key(0), feature_sizes=[8, 64, 64, 4]
)
bound, variables = pz.unbind_params(network, freeze=False)
optimizer = optax.lion(1e-3)


@jax.jit
def step(params, state, x, labels):
    def loss(params):
        model = pz.bind_variables(bound, params)
        logits = model(pz.nx.wrap(x).tag("batch", "features"))
        logits = logits.unwrap("batch", "features")
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return parameters, the optimizer's state, rows and their classes."""
    params = [x.freeze() for x in variables]
    x = jax.random.normal(jax.random.key(1), (128, 8))
    return params, optimizer.init(params), x, jnp.argmax(x[:, :4] * x[:, 4:], 1)


def run(params, state, x, labels):
    """Return the losses of 6 steps."""
    losses = []
    for _ in range(6):
        params, state, value = step(params, state, x, labels)
        losses.append(value)
    return [float(x) for x in losses]
