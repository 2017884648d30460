"""Contractions of a tensor network and its gradient: a matrix product state of TensorNetwork."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import tensornetwork as tn

SITES, BOND, PHYSICAL = 12, 16, 4


@jax.jit
def step(tensors, observed):
    def amplitude(tensors, row):
        nodes = [tn.Node(x, backend="jax") for x in tensors]
        ends = [tn.Node(x, backend="jax") for x in row]
        for left, right in pairwise(nodes):
            left[2] ^ right[0]
        for node, end in zip(nodes, ends, strict=True):
            node[1] ^ end[0]
        nodes[-1][2] ^ nodes[0][0]
        return tn.contractors.auto([*nodes, *ends]).tensor

    def loss(tensors):
        found = jax.vmap(lambda row: amplitude(tensors, row))(observed)
        return -jnp.mean(jnp.log(found**2 + 1e-6))

    value, grads = jax.value_and_grad(loss)(tensors)
    return [x - 1e-2 * g for x, g in zip(tensors, grads, strict=True)], value


def arguments():
    """Return the tensors of all sites and rows of one-hot observations."""
    keys = jax.random.split(jax.random.key(0), SITES + 1)
    tensors = [jax.random.normal(x, (BOND, PHYSICAL, BOND)) / BOND**0.5 for x in keys[1:]]
    seen = jax.random.randint(keys[0], (32, SITES), 0, PHYSICAL)
    return tensors, jax.nn.one_hot(seen, PHYSICAL)


def run(tensors, observed):
    """Return the losses of 4 steps."""
    losses = []
    for _ in range(4):
        tensors, value = step(tensors, observed)
        losses.append(value)
    return [float(x) for x in losses]
