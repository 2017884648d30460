"""A variational autoencoder of flax.nnx, trained 10 steps."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Encoder(nnx.Module):
    """Means and deviations of the latent values."""

    def __init__(self, rngs):
        self.dense = nnx.Linear(784, 256, rngs=rngs)
        self.mean = nnx.Linear(256, 20, rngs=rngs)
        self.deviation = nnx.Linear(256, 20, rngs=rngs)

    def __call__(self, x):
        """Return both."""
        x = jax.nn.relu(self.dense(x))
        return self.mean(x), jnp.exp(self.deviation(x))


class Autoencoder(nnx.Module):
    """An encoder, noise, and a decoder."""

    def __init__(self, rngs):
        self.encoder = Encoder(rngs)
        self.first = nnx.Linear(20, 256, rngs=rngs)
        self.second = nnx.Linear(256, 784, rngs=rngs)

    def __call__(self, x, key):
        """Return logits of pixels, means and deviations."""
        mean, deviation = self.encoder(x)
        z = mean + deviation * jax.random.normal(key, mean.shape)
        return self.second(jax.nn.relu(self.first(z))), mean, deviation


def loss(model, x, key):
    logits, mean, deviation = model(x, key)
    away = 0.5 * jnp.mean(mean**2 + deviation**2 - 2 * jnp.log(deviation) - 1)
    return optax.sigmoid_binary_cross_entropy(logits, x).mean() + 0.1 * away


@nnx.jit
def step(model, optimizer, x, key):
    value, grads = nnx.value_and_grad(loss)(model, x, key)
    optimizer.update(model, grads)
    return value


def arguments():
    """Return the model, its optimizer, images and a key."""
    model = Autoencoder(nnx.Rngs(0))
    x = (jax.random.uniform(jax.random.key(1), (64, 784)) < 0.3).astype(jnp.float32)
    return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param), x, jax.random.key(2)


def run(model, optimizer, x, key):
    """Return the losses of 10 steps of copies."""
    model, optimizer = nnx.clone(model), nnx.clone(optimizer)
    return [float(step(model, optimizer, x, jax.random.fold_in(key, i))) for i in range(10)]
