"""A convolutional classifier of flax.linen, trained 50 steps with optax."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState


class Classifier(nn.Module):
    """Two convolutions and two dense layers, with batch statistics left out."""

    @nn.compact
    def __call__(self, x):
        """Return scores of ten classes."""
        for features in (16, 32):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        x = nn.LayerNorm()(nn.gelu(nn.Dense(64)(x)))
        return nn.Dense(10)(x)


network = Classifier()


@jax.jit
def step(state, images, labels):
    def loss(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


def arguments():
    """Return the state, the images and the labels."""
    images = jax.random.normal(jax.random.key(1), (64, 28, 28, 1))
    labels = jnp.argmax(images.reshape(64, -1)[:, :10], 1)
    params = network.init(jax.random.key(0), images)["params"]
    state = TrainState.create(apply_fn=network.apply, params=params, tx=optax.adamw(1e-3))
    return state, images, labels


def run(state, images, labels):
    """Return the losses of 50 steps."""
    losses = []
    for _ in range(50):
        state, value = step(state, images, labels)
        losses.append(value)
    return [float(x) for x in losses]
