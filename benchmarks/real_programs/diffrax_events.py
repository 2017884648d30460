"""A falling ball of diffrax: the time of its bounce by an event, and that time's gradient."""

import diffrax
import jax
import jax.numpy as jnp
import optimistix


def fall(t, y, drag):
    speed = y[1]
    return speed, -9.81 - drag * speed * jnp.abs(speed)


def landed(t, y, args, **others):
    return y[0]


@jax.jit
@jax.vmap
def step(heights, drags):
    def when(drag, height):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(fall),
            diffrax.Tsit5(),
            t0=0.0,
            t1=jnp.inf,
            dt0=0.05,
            y0=(height, jnp.zeros_like(height)),
            args=drag,
            event=diffrax.Event(landed, optimistix.Newton(1e-5, 1e-5)),
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
            max_steps=256,
        )
        return solution.ts[-1]

    return jax.value_and_grad(when)(drags, heights)


def arguments():
    """Return heights and drags of 12 balls."""
    return jnp.linspace(2.0, 30.0, 12), jnp.linspace(0.01, 0.2, 12)


def run(heights, drags):
    """Return times and their gradients."""
    return [float(x) for x in jnp.concatenate(step(heights, drags))]
