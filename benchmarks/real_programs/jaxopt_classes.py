"""Logistic regression of ten classes by L-BFGS of jaxopt, 15 steps; sparse by proximal steps."""

import jax
import jax.numpy as jnp
import jaxopt


@jax.jit
def step(start, x, y):
    smooth = jaxopt.LBFGS(jaxopt.objective.l2_multiclass_logreg, maxiter=15, tol=1e-6)
    first = smooth.run(start, l2reg=1e-2, data=(x, y)).params
    lasso = jaxopt.ProximalGradient(
        jaxopt.objective.multiclass_logreg, prox=jaxopt.prox.prox_lasso, maxiter=20, tol=1e-6
    )
    second = lasso.run(start, hyperparams_prox=1e-2, data=(x, y)).params
    return first, second


def arguments():
    """Return beginnings, inputs and classes."""
    x = jax.random.normal(jax.random.key(0), (600, 64))
    y = jnp.argmax(x @ jax.random.normal(jax.random.key(1), (64, 10)), -1)
    return jnp.zeros((64, 10)), x, y


def run(start, x, y):
    """Return the costs, and the sizes of both solutions."""
    found = step(start, x, y)
    costs = [jaxopt.objective.multiclass_logreg(w, (x, y)) for w in found]
    return [float(x) for x in (*costs, *(jnp.abs(w).sum() for w in found))]
