"""Solvers of probdiffeq: predators and prey by filters in three forms, with adaptive steps."""

import jax
import jax.numpy as jnp
from probdiffeq import ivpsolve, probdiffeq

FORMS = (
    probdiffeq.state_space_model_dense,
    probdiffeq.state_space_model_isotropic,
    probdiffeq.state_space_model_blockdiag,
)


@probdiffeq.ode
def animals(y, /, *, t):
    del t
    return jnp.asarray([0.5 * y[0] - 0.05 * y[0] * y[1], -0.5 * y[1] + 0.05 * y[0] * y[1]])


@jax.jit
def step(start, times):
    expand = probdiffeq.jetexpand_ode_padded_scan(num=2)
    coefficients, _ = expand(animals, (start,), t=0.0)
    found = []
    for form in FORMS:
        model = form()
        rule = model.constraint_ode_ts0(animals)
        solve = ivpsolve.solve_adaptive_save_at(
            solver=probdiffeq.solver_mle(strategy=probdiffeq.strategy_filter(), constraint=rule),
            error=probdiffeq.error_residual_std(constraint=rule),
            warn=False,
        )
        prior = model.prior_wiener_integrated(coefficients)
        found.append(solve(prior, times, atol=1e-3, rtol=1e-3).u.mean[0])
    return jnp.stack(found)


def arguments():
    """Return the animals at first, and the times at which they are counted."""
    return jnp.array([20.0, 20.0]), jnp.linspace(0.0, 4.0, 20)


def run(start, times):
    """Return the animals at every fifth time."""
    return [float(x) for x in step(start, times)[:, ::5].ravel()]
