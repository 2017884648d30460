"""A transform on the sphere by s2fft: forward, a filter, back, and a gradient through all."""

import jax
import jax.numpy as jnp
import s2fft

BAND = 24


@jax.jit
def step(signal, target):
    def smoothed(signal, width):
        found = s2fft.forward_jax(signal, BAND, reality=True)
        degree = jnp.arange(BAND)[:, None]
        return s2fft.inverse_jax(
            found * jnp.exp(-degree * (degree + 1) * width), BAND, reality=True
        ).real

    def loss(signal, width):
        return jnp.mean((smoothed(signal, width) - target) ** 2)

    return jax.value_and_grad(loss, argnums=(0, 1))(signal, jnp.float32(1e-2))


def arguments():
    """Return a signal on the sphere and another one."""
    shape = s2fft.sampling.s2_samples.f_shape(BAND)
    signal = jax.random.normal(jax.random.key(0), shape)
    return signal, jnp.roll(signal, 3, 1)


def run(signal, target):
    """Return the loss and some of its gradients."""
    value, (along, width) = step(signal, target)
    return [float(value), float(width)] + [float(jnp.abs(x).sum()) for x in along[::8]]
