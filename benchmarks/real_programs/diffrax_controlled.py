"""A controlled differential equation of diffrax over spirals, with its gradient: 3 steps."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

HIDDEN = 8


class Field(eqx.Module):
    """How the hidden state moves with each channel."""

    mlp: eqx.nn.MLP

    def __init__(self, key):
        self.mlp = eqx.nn.MLP(HIDDEN, HIDDEN * 3, 32, 1, jax.nn.softplus, jnp.tanh, key=key)

    def __call__(self, t, y, args):
        """Return a matrix."""
        return self.mlp(y).reshape(HIDDEN, 3)


class Classifier(eqx.Module):
    """The state behind a path, and a linear map of it."""

    start: eqx.nn.Linear
    field: Field
    last: eqx.nn.Linear

    def __init__(self, key):
        a, b, c = jax.random.split(key, 3)
        self.start = eqx.nn.Linear(3, HIDDEN, key=a)
        self.field = Field(b)
        self.last = eqx.nn.Linear(HIDDEN, 1, key=c)

    def __call__(self, ts, coefficients):
        """Return the chance that the path turns to the left."""
        control = diffrax.CubicInterpolation(ts, coefficients)
        term = diffrax.ControlTerm(self.field, control).to_ode()
        y0 = self.start(control.evaluate(ts[0]))
        solver, controller = diffrax.Tsit5(), diffrax.PIDController(rtol=1e-3, atol=1e-6)
        found = diffrax.diffeqsolve(
            term, solver, ts[0], ts[-1], None, y0, stepsize_controller=controller, max_steps=256
        )
        return jax.nn.sigmoid(self.last(found.ys[-1]))[0]


optimizer = optax.adam(1e-2)


@eqx.filter_jit
def step(model, state, ts, coefficients, labels):
    @eqx.filter_value_and_grad
    def loss(model):
        p = jax.vmap(model, (0, 0))(ts, coefficients)
        return -jnp.mean(labels * jnp.log(p) + (1 - labels) * jnp.log(1 - p))

    value, grads = loss(model)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, value


def arguments():
    """Return the model, the optimizer's state, times, splines and labels."""
    model = Classifier(jax.random.key(0))
    labels = (jnp.arange(16) % 2).astype(jnp.float32)
    ts = jnp.broadcast_to(jnp.linspace(0, 4 * jnp.pi, 40), (16, 40))
    turn = jax.random.uniform(jax.random.key(1), (16, 1)) * 6 + (2 * labels[:, None] - 1) * ts
    ys = jnp.stack([ts, jnp.cos(turn) / (1 + ts), jnp.sin(turn) / (1 + ts)], -1)
    coefficients = jax.vmap(diffrax.backward_hermite_coefficients)(ts, ys)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    return model, state, ts, coefficients, labels


def run(model, state, ts, coefficients, labels):
    """Return the losses of 3 steps."""
    losses = []
    for _ in range(3):
        model, state, value = step(model, state, ts, coefficients, labels)
        losses.append(value)
    return [float(x) for x in losses]
