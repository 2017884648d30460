"""A module of equinox, trained 50 steps with optax and the decorator of equinox."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(1e-2)


@eqx.filter_value_and_grad
def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


def train(model, state, x, y):
    value, grads = loss(model, x, y)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, value


step = eqx.filter_jit(train)


def arguments():
    """Return the model, the optimizer's state, the inputs and the targets."""
    model = eqx.nn.MLP(4, 1, 128, 3, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (512, 4))
    y = jnp.sin(x[:, 0]) * x[:, 1] + x[:, 2]
    return model, optimizer.init(eqx.filter(model, eqx.is_array)), x, y


def run(model, state, x, y):
    """Return the losses of 50 steps."""
    losses = []
    for _ in range(50):
        model, state, value = step(model, state, x, y)
        losses.append(value)
    return [float(x) for x in losses]
