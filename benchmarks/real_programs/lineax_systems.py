"""Linear systems of lineax: conjugate gradients on an operator, GMRES, LU and QR of matrices."""

import jax
import jax.numpy as jnp
import lineax as lx


@jax.jit
def step(field, matrix, tall, right):
    def helmholtz(x):
        x = x.reshape(field.shape)
        around = sum(jnp.roll(x, by, axis) for by in (1, -1) for axis in (0, 1))
        return (5.0 * x - around + field * x).ravel()

    like = jax.eval_shape(lambda: right)
    operator = lx.FunctionLinearOperator(helmholtz, like, lx.positive_semidefinite_tag)
    a = lx.linear_solve(operator, right, lx.CG(rtol=1e-5, atol=1e-5)).value
    some = right[: len(matrix)]
    dense = lx.MatrixLinearOperator(matrix)
    b = lx.linear_solve(dense, some, lx.GMRES(rtol=1e-4, atol=1e-4)).value
    c = lx.linear_solve(dense, some, lx.LU()).value
    d = lx.linear_solve(lx.MatrixLinearOperator(tall), right[: len(tall)], lx.QR()).value
    return a, b, c, d


def arguments():
    """Return a field, a matrix, a tall matrix and the right side."""
    keys = jax.random.split(jax.random.key(0), 4)
    field = jax.random.uniform(keys[0], (48, 48))
    matrix = 0.3 * jax.random.normal(keys[1], (120, 120)) / 11 + jnp.eye(120)
    tall = jax.random.normal(keys[2], (300, 60))
    return field, matrix, tall, jax.random.normal(keys[3], (48 * 48,))


def run(field, matrix, tall, right):
    """Return the lengths of the solutions, and some of their numbers."""
    found = step(field, matrix, tall, right)
    return [float(jnp.linalg.norm(x)) for x in found] + [float(x[3]) for x in found]
