"""A signal filtered by Fourier transforms along another axis than the last."""

import jax.numpy as jnp
import numpy as np

import lowtide

t = np.linspace(0, 1, 200, endpoint=False, dtype=np.float32)
signal = np.stack([np.sin(2 * np.pi * f * t) for f in (3, 20, 45)], 1).sum(1, keepdims=True)
signal = np.concatenate([signal, 2 * signal], 1)


@lowtide.jit
def low_pass(x):
    z = jnp.fft.rfft(x, axis=0)
    kept = jnp.where(jnp.arange(z.shape[0])[:, None] < 10, z, 0)
    return jnp.fft.irfft(kept, n=x.shape[0], axis=0), jnp.abs(jnp.fft.fft2(x)).max()


smooth, peak = low_pass(signal)
print([float(abs(smooth[:, i]).max()) for i in (0, 1)], float(peak))
