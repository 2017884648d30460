"""Robust regression by L-BFGS of optax with a zoom line search, 12 iterations in a while loop."""

import jax
import jax.numpy as jnp
import optax

optimizer = optax.lbfgs(memory_size=8)


@jax.jit
def step(params, x, y):
    def loss(params):
        hidden = jnp.tanh(x @ params["in"] + params["bias"])
        return jnp.mean(optax.huber_loss(hidden @ params["out"], y)) + 1e-4 * optax.tree.norm(
            params, squared=True
        )

    gradient = optax.value_and_grad_from_state(loss)

    def once(carry):
        params, state = carry
        value, grads = gradient(params, state=state)
        updates, state = optimizer.update(
            grads, state, params, value=value, grad=grads, value_fn=loss
        )
        return optax.apply_updates(params, updates), state

    def goes_on(carry):
        state = carry[1]
        count = optax.tree.get(state, "count")
        error = optax.tree.norm(optax.tree.get(state, "grad"))
        return (count == 0) | ((count < 12) & (error >= 1e-4))

    params, state = jax.lax.while_loop(goes_on, once, (params, optimizer.init(params)))
    return optax.tree.get(state, "value"), optax.tree.norm(params)


def arguments():
    """Return weights and data."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (400, 10))
    params = {
        "in": 0.3 * jax.random.normal(keys[1], (10, 24)),
        "bias": jnp.zeros(24),
        "out": 0.3 * jax.random.normal(keys[2], (24,)),
    }
    return params, x, jnp.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def run(params, x, y):
    """Return the last loss and the norm of the weights."""
    return [float(z) for z in step(params, x, y)]
