"""Variational Monte Carlo of NetKet: samples of a chain of spins and gradients of its energy."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import netket as nk
from jax.flatten_util import ravel_pytree

SPINS = 16
hilbert = nk.hilbert.Spin(s=0.5, N=SPINS)
graph = nk.graph.Chain(length=SPINS, pbc=True)
energy = nk.operator.IsingJax(hilbert, graph, h=1.0)
network = nk.models.RBM(alpha=2, kernel_init=nn.initializers.normal(0.1))
sampler = nk.sampler.MetropolisLocal(hilbert, n_chains=32)


@jax.jit
def step(params, state):
    samples, state = sampler.sample(network, params, state=state, chain_length=4)
    samples = samples.reshape(-1, SPINS)
    connected, elements = energy.get_conn_padded(samples)
    there = network.apply(params, connected)
    here = network.apply(params, samples)
    local = (elements * jnp.exp(there - here[:, None])).sum(1)
    centred = local - local.mean()

    def surrogate(params):
        return 2 * jnp.mean(jax.lax.stop_gradient(centred) * network.apply(params, samples))

    grads = jax.grad(surrogate)(params)
    jacobian = jax.vmap(lambda x: ravel_pytree(jax.grad(lambda p: network.apply(p, x))(params))[0])(
        samples
    )
    jacobian = jacobian - jacobian.mean(0)
    flat, unravel = ravel_pytree(grads)
    gram = jacobian @ jacobian.T / len(samples) + 1e-2 * jnp.eye(len(samples))
    residual = flat - jacobian.T @ jnp.linalg.solve(gram, jacobian @ flat) / len(samples)
    change = unravel(residual)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, change), state, local.mean()


def arguments():
    """Return parameters and the sampler's state."""
    params = network.init(jax.random.key(0), jnp.zeros((1, SPINS)))
    state = sampler.init_state(network, params, seed=1)
    return params, sampler.reset(network, params, state=state)


def run(params, state):
    """Return energies of 3 steps."""
    energies = []
    for _ in range(3):
        params, state, value = step(params, state)
        energies.append(value)
    return [float(x) for x in energies]
