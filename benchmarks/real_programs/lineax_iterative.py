"""Iterative solvers of lineax on operators without a matrix: CG, GMRES, BiCGStab, a gradient."""

import jax
import jax.numpy as jnp
import lineax as lx

SIDE = 24


def laplace(x):
    """Return a shifted Laplacian of an image, with zeros around."""
    wide = jnp.pad(x, 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return 4.5 * x - around


@jax.jit
def step(image, weights):
    shape = jax.ShapeDtypeStruct(image.shape, image.dtype)
    plain = lx.FunctionLinearOperator(laplace, shape, lx.positive_semidefinite_tag)

    def drifting(x):
        return laplace(x) + 0.3 * (x - jnp.roll(x, 1, 0)) * weights

    skew = lx.FunctionLinearOperator(drifting, shape)
    cg, gmres = lx.CG(1e-5, 1e-5), lx.GMRES(1e-5, 1e-5, restart=12)
    smooth = lx.linear_solve(plain, image, cg)
    drifted = lx.linear_solve(skew, image, gmres, throw=False).value
    stable = lx.linear_solve(skew, image, lx.BiCGStab(1e-5, 1e-5), throw=False).value

    def cost(y):
        return jnp.sum(lx.linear_solve(plain, y, cg).value ** 2)

    return smooth.value, drifted, stable, jax.grad(cost)(image)


def arguments():
    """Return an image and weights."""
    image = jax.random.normal(jax.random.key(0), (SIDE, SIDE))
    return image, jax.random.uniform(jax.random.key(1), (SIDE, SIDE))


def run(image, weights):
    """Return some of the solutions."""
    return [float(y) for x in step(image, weights) for y in x[::6, ::6].ravel()]
