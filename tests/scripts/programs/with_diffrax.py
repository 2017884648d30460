"""An equation solved by diffrax with steps of its own choice.

needs: diffrax
"""

import diffrax
import jax
import jax.numpy as jnp

import lowtide


def end(y0, rate):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: -args * y + jnp.cos(t)),
        diffrax.Tsit5(),
        t0=0.0,
        t1=3.0,
        dt0=0.1,
        y0=y0,
        args=rate,
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        throw=False,
    )
    return solution.ys[-1]


solve = lowtide.jit(end)
for rate in (0.5, 1.0, 2.0):
    print([float(v) for v in solve(jnp.array([1.0, 2.0]), rate)])
print(float(lowtide.jit(jax.grad(lambda r: end(jnp.array([1.0]), r).sum()))(1.0)))
