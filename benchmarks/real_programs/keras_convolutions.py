"""A convolutional net of Keras on JAX with batch statistics and dropout, trained 3 steps."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
from keras import layers

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        layers.Input((28, 28, 1)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(3, padding="same"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(64, activation="gelu"),
        layers.Dense(10),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@jax.jit
def step(trained, fixed, state, images, labels):
    def loss(trained):
        logits, moved = model.stateless_call(trained, fixed, images, training=True)
        return entropy(labels, logits), moved

    (value, fixed), grads = jax.value_and_grad(loss, has_aux=True)(trained)
    trained, state = optimizer.stateless_apply(state, grads, trained)
    return trained, fixed, state, value


def arguments():
    """Return weights, statistics, the optimizer's state, images and labels."""
    images = jax.random.normal(jax.random.key(1), (32, 28, 28, 1))
    labels = jnp.argmax(images.reshape(32, -1)[:, :10], 1)
    parts = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    return *([x.value for x in part] for part in parts), images, labels


def run(trained, fixed, state, images, labels):
    """Return the losses of 3 steps."""
    losses = []
    for _ in range(3):
        trained, fixed, state, value = step(trained, fixed, state, images, labels)
        losses.append(value)
    return [float(x) for x in losses]
