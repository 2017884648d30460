"""A neural differential equation of equinox and diffrax, trained 3 steps with optax."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

TIMES = jnp.linspace(0.0, 3.0, 30)


class Field(eqx.Module):
    """The derivative as a network."""

    network: eqx.nn.MLP

    def __call__(self, t, y, args):
        """Return the derivative at one time."""
        return self.network(y)

    def solve(self, start):
        """Return the values at all times."""
        return diffrax.diffeqsolve(
            diffrax.ODETerm(self),
            diffrax.Tsit5(),
            t0=0.0,
            t1=3.0,
            dt0=0.1,
            y0=start,
            saveat=diffrax.SaveAt(ts=TIMES),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            max_steps=256,
        ).ys


optimizer = optax.adabelief(3e-3)


@eqx.filter_jit
def step(model, state, ys):
    @eqx.filter_value_and_grad
    def loss(model):
        return jnp.mean((jax.vmap(model.solve)(ys[:, 0]) - ys) ** 2)

    value, grads = loss(model)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, value


def arguments():
    """Return the model, the optimizer's state, and 32 ways to learn."""
    softplus = jax.nn.softplus
    model = Field(eqx.nn.MLP(2, 2, 64, 2, activation=softplus, key=jax.random.key(0)))
    phase = jax.random.uniform(jax.random.key(1), (32, 1), maxval=6.0)
    ys = jnp.stack([jnp.sin(TIMES + phase), jnp.cos(TIMES + phase)], -1)
    return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array)), ys


def run(model, state, ys):
    """Return the losses of 3 steps."""
    losses = []
    for _ in range(3):
        model, state, value = step(model, state, ys)
        losses.append(value)
    return [float(x) for x in losses]
