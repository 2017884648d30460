"""Newton's method with a Hessian, and a Jacobian-vector product of the same function."""

import jax
import jax.numpy as jnp

import lowtide


def valley(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@lowtide.jit
def newton(x):
    return x - jnp.linalg.solve(jax.hessian(valley)(x), jax.grad(valley)(x))


x = jnp.array([0.9, 0.8, 0.7, 0.6])
for _ in range(8):
    x = newton(x)
print([round(float(v), 3) for v in x])
print(float(lowtide.jit(lambda x, v: jax.jvp(valley, (x,), (v,))[1])(x + 1, jnp.ones(4))))
