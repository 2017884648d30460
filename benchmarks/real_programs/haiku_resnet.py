"""A residual net of dm-haiku with batch statistics, trained 2 steps by momentum."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

model = hk.transform_with_state(
    lambda images, training: hk.nets.ResNet18(10, resnet_v2=True)(images, training)
)
optimizer = optax.sgd(0.01, momentum=0.9)


@jax.jit
def step(params, stats, state, images, labels):
    def loss(params):
        logits, moved = model.apply(params, stats, None, images, True)
        return optax.softmax_cross_entropy(logits, jax.nn.one_hot(labels, 10)).mean(), moved

    (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), stats, state, value


def arguments():
    """Return weights, batch statistics, the optimizer's state, images and labels."""
    images = jax.random.normal(jax.random.key(1), (8, 32, 32, 3))
    labels = jnp.arange(8) % 10
    params, stats = model.init(jax.random.PRNGKey(0), images, True)
    return params, stats, optimizer.init(params), images, labels


def run(params, stats, state, images, labels):
    """Return the losses of 2 steps."""
    losses = []
    for _ in range(2):
        params, stats, state, value = step(params, stats, state, images, labels)
        losses.append(value)
    return [float(x) for x in losses]
