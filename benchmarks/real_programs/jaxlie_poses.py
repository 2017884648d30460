"""A chain of poses in jaxlie: 20 steps of gradient descent on what lies between neighbours."""

import jax
import jax.numpy as jnp
import jaxlie


def _loss(tangents, measured):
    poses = jax.vmap(jaxlie.SE3.exp)(tangents)
    first = jax.tree.map(lambda x: x[:-1], poses)
    second = jax.tree.map(lambda x: x[1:], poses)
    between = jax.vmap(lambda a, b: a.inverse() @ b)(first, second)
    wanted = jax.vmap(jaxlie.SE3.exp)(measured)
    error = jax.vmap(lambda a, b: (a.inverse() @ b).log())(wanted, between)
    return jnp.sum(error**2) + jnp.sum(tangents[0] ** 2)


@jax.jit
def step(tangents, measured):
    def one(tangents, _):
        value, slope = jax.value_and_grad(_loss)(tangents, measured)
        return tangents - 0.02 * slope, value

    return jax.lax.scan(one, tangents, None, length=20)


def arguments():
    """Return poses as tangents, and what was measured between them."""
    tangents = 0.3 * jax.random.normal(jax.random.key(0), (50, 6))
    return tangents, 0.2 * jax.random.normal(jax.random.key(1), (49, 6))


def run(tangents, measured):
    """Return the losses of the steps."""
    return [float(x) for x in step(tangents, measured)[1]]
