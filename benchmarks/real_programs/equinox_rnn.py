"""A GRU of equinox that tells which way spirals turn, trained 10 steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Spirals(eqx.Module):
    """A cell over time, and a linear map of its last state."""

    cell: eqx.nn.GRUCell
    linear: eqx.nn.Linear

    def __init__(self, hidden, key):
        a, b = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(2, hidden, key=a)
        self.linear = eqx.nn.Linear(hidden, 1, key=b)

    def __call__(self, points):
        """Return the chance that the spiral turns to the left."""
        start = jnp.zeros(self.cell.hidden_size)
        last, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), start, points)
        return jax.nn.sigmoid(self.linear(last))[0]


optimizer = optax.adam(3e-3)


@eqx.filter_jit
def step(model, state, x, y):
    @eqx.filter_value_and_grad
    def loss(model):
        p = jax.vmap(model)(x)
        return -jnp.mean(y * jnp.log(p) + (1 - y) * jnp.log(1 - p))

    value, grads = loss(model)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, value


def arguments():
    """Return the model, the optimizer's state, spirals and their directions."""
    model = Spirals(16, jax.random.key(0))
    start = jax.random.uniform(jax.random.key(1), (32, 1), maxval=2 * jnp.pi)
    t = jnp.linspace(0, 4 * jnp.pi, 64)
    y = (jnp.arange(32) % 2).astype(jnp.float32)
    turn = start + (2 * y[:, None] - 1) * t
    x = jnp.stack([jnp.sin(turn), jnp.cos(turn)], -1) / (1 + t)[:, None]
    return model, optimizer.init(eqx.filter(model, eqx.is_array)), x, y


def run(model, state, x, y):
    """Return the losses of 10 steps."""
    losses = []
    for _ in range(10):
        model, state, value = step(model, state, x, y)
        losses.append(value)
    return [float(x) for x in losses]
