"""A neuron of three branches in jaxley: the gradient of a voltage by conductances, 3 steps."""

import jax
import jax.numpy as jnp
import jaxley as jx
import optax
from jaxley.channels import HH

optimizer = optax.adam(1e-2)


def _cell():
    compartment = jx.Compartment()
    branch = jx.Branch(compartment, ncomp=2)
    cell = jx.Cell(branch, parents=[-1, 0, 0])
    cell.insert(HH())
    cell.branch(0).loc(0.0).record(verbose=False)
    current = jx.step_current(i_delay=0.5, i_dur=1.0, i_amp=0.5, delta_t=0.025, t_max=5.0)
    cell.branch(1).loc(1.0).stimulate(current, verbose=False)
    cell.make_trainable("HH_gNa", verbose=False)
    return cell


cell = _cell()


@jax.jit
def step(params, state):
    def loss(params):
        return jnp.mean((jx.integrate(cell, params=params, delta_t=0.025) + 40.0) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return conductances and the optimizer's state."""
    params = cell.get_parameters()
    return params, optimizer.init(params)


def run(params, state):
    """Return the losses of 3 steps."""
    losses = []
    for _ in range(3):
        params, state, value = step(params, state)
        losses.append(value)
    return [float(x) for x in losses]
