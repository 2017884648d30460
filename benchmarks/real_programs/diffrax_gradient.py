"""The gradient of what a diffrax solve with steps of its own choice ends in, errors checked."""

import diffrax
import jax
import jax.numpy as jnp


def field(t, y, args):
    a, b, c, d = args
    return jnp.array([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])


def distance(args, y0):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=8.0,
        dt0=0.1,
        y0=y0,
        args=args,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 8.0, 33)),
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        max_steps=512,
    )
    return jnp.sum((solution.ys - 1.0) ** 2)


step = jax.jit(jax.value_and_grad(distance))


def arguments():
    """Return the rates and the beginning."""
    return jnp.array([0.7, 0.5, 0.4, 0.6]), jnp.array([1.5, 1.0])


def run(args, y0):
    """Return the distances on the way of 10 steps downhill, and the last rates."""
    distances = []
    for _ in range(10):
        value, grads = step(args, y0)
        args = args - 2e-4 * grads
        distances.append(float(value))
    return distances + [float(x) for x in args]
