"""Tensor products of e3nn along the edges of a cloud of points, and forces by gradient."""

from functools import partial

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp

NODES, EDGES = 40, 300
HIDDEN = e3nn.Irreps("8x0e + 4x1o + 2x2e")


def energy(weights, positions, senders, receivers, features):
    apart = positions[receivers] - positions[senders]
    angles = e3nn.spherical_harmonics([0, 1, 2], e3nn.IrrepsArray("1o", apart), True)
    length = jnp.linalg.norm(apart, axis=-1, keepdims=True)
    radial = e3nn.bessel(length[:, 0], 8, 2.0) @ weights["radial"]
    nodes = e3nn.IrrepsArray("8x0e", features @ weights["embed"])
    for layer in range(2):
        sent = e3nn.tensor_product(nodes[senders], angles, filter_ir_out=["0e", "1o", "2e"])
        sent = sent.regroup()
        summed = e3nn.scatter_sum(sent, dst=receivers, output_size=NODES) / jnp.sqrt(8.0)
        linear = e3nn.FunctionalLinear(summed.irreps, HIDDEN)
        flat = weights[f"layer{layer}"][: linear.num_weights]
        nodes = e3nn.norm_activation(
            e3nn.vmap(partial(linear, flat))(summed), [jnp.tanh, None, None]
        )
    return jnp.sum(nodes.filter("0e").array) + 1e-3 * jnp.sum(radial**2)


step = jax.jit(jax.value_and_grad(energy, argnums=1))


def arguments():
    """Return weights, positions, edges and features."""
    keys = jax.random.split(jax.random.key(0), 8)
    weights = {
        "radial": jax.random.normal(keys[0], (8, 8)),
        "embed": jax.random.normal(keys[1], (4, 8)),
        "layer0": 0.3 * jax.random.normal(keys[2], (1000,)),
        "layer1": 0.3 * jax.random.normal(keys[3], (1000,)),
    }
    senders = jax.random.randint(keys[5], (EDGES,), 0, NODES)
    receivers = (senders + jax.random.randint(keys[6], (EDGES,), 1, NODES)) % NODES
    positions = jax.random.normal(keys[4], (NODES, 3))
    return weights, positions, senders, receivers, jax.random.normal(keys[7], (NODES, 4))


def run(weights, positions, senders, receivers, features):
    """Return the energies of 20 steps along the forces."""
    energies = []
    for _ in range(20):
        value, slope = step(weights, positions, senders, receivers, features)
        positions = positions - 1e-3 * slope
        energies.append(value)
    return [float(x) for x in energies]
