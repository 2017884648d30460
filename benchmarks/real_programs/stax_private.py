"""Private gradients of example_libraries: clipped for each example, with noise; 3 steps."""

import jax
import jax.numpy as jnp
from jax.example_libraries import optimizers, stax
from jax.tree_util import tree_flatten, tree_unflatten

init, apply = stax.serial(
    stax.Conv(16, (8, 8), padding="SAME", strides=(2, 2)),
    stax.Relu,
    stax.MaxPool((2, 2), (1, 1)),
    stax.Conv(32, (4, 4), padding="VALID", strides=(2, 2)),
    stax.Relu,
    stax.MaxPool((2, 2), (1, 1)),
    stax.Flatten,
    stax.Dense(32),
    stax.Relu,
    stax.Dense(10),
)
begin, update, weights = optimizers.sgd(0.15)


def loss(params, image, label):
    scores = jax.nn.log_softmax(apply(params, image[None]))
    return -jnp.sum(scores * label)


def clipped(params, image, label):
    grads, tree = tree_flatten(jax.grad(loss)(params, image, label))
    norm = jnp.linalg.norm(jnp.array([jnp.linalg.norm(x.ravel()) for x in grads]))
    return tree_unflatten(tree, [x / jnp.maximum(norm, 1.0) for x in grads])


@jax.jit
def step(key, number, state, images, labels):
    params = weights(state)
    grads, tree = tree_flatten(jax.vmap(clipped, (None, 0, 0))(params, images, labels))
    keys = jax.random.split(key, len(grads))
    noisy = [
        (x.sum(0) + 1.1 * jax.random.normal(k, x.shape[1:])) / len(images)
        for k, x in zip(keys, grads, strict=True)
    ]
    values = jax.vmap(loss, (None, 0, 0))(params, images, labels)
    return update(number, tree_unflatten(tree, noisy), state), values.mean()


def arguments():
    """Return a key, a number, the optimizer's state, images and labels."""
    images = jax.random.normal(jax.random.key(0), (32, 28, 28, 1))
    labels = jax.nn.one_hot(jnp.arange(32) % 10, 10)
    _, params = init(jax.random.PRNGKey(1), (-1, 28, 28, 1))
    return jax.random.PRNGKey(2), 0, begin(params), images, labels


def run(key, number, state, images, labels):
    """Return the losses of 3 steps."""
    found = []
    for number in range(3):
        state, value = step(jax.random.fold_in(key, number), number, state, images, labels)
        found.append(float(value))
    return found
