"""A stiff reaction of three species by an implicit method of diffrax, for 16 rates at once."""

import diffrax
import jax
import jax.numpy as jnp


def reaction(t, y, rates):
    slow, quick, middle = rates
    first = -slow * y[0] + middle * y[1] * y[2]
    third = quick * y[1] ** 2
    return jnp.stack([first, -first - third, third])


@jax.jit
@jax.vmap
def step(rates, start):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(reaction),
        diffrax.Kvaerno5(),
        t0=0.0,
        t1=40.0,
        dt0=1e-4,
        y0=start,
        args=rates,
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
        max_steps=500,
    )
    return solution.ys[-1], solution.stats["num_steps"]


def arguments():
    """Return rates and beginnings."""
    rates = jnp.array([0.04, 3e3, 1e2]) * jnp.linspace(0.5, 1.5, 16)[:, None]
    return rates, jnp.tile(jnp.array([1.0, 0.0, 0.0]), (16, 1))


def run(rates, starts):
    """Return what is left of each species."""
    ys, _ = step(rates, starts)
    return [float(x) for x in ys[:, ::2].ravel()]
