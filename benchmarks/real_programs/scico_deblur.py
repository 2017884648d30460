"""Deblurring with SCICO: total variation by accelerated proximal gradients."""

import jax
import jax.numpy as jnp
from scico import functional, linop, loss
from scico.optimize import AcceleratedPGM

SIZE = 64


@jax.jit
def step(blurred, kernel):
    blur = linop.CircularConvolve(h=kernel, input_shape=(SIZE, SIZE))
    solver = AcceleratedPGM(
        f=loss.SquaredL2Loss(y=blurred, A=blur),
        g=2e-2 * functional.IsotropicTVNorm(circular=True, input_shape=(SIZE, SIZE)),
        L0=1.0,
        x0=blurred,
    )
    for _ in range(8):
        solver.step()
    return solver.x


def arguments():
    """Return an image that was blurred, and what blurred it."""
    y, x = jnp.mgrid[:SIZE, :SIZE]
    image = ((y // 16 + x // 16) % 2).astype(jnp.float32)
    kernel = jnp.ones((5, 5)) / 25
    blurred = jnp.fft.irfft2(
        jnp.fft.rfft2(image) * jnp.fft.rfft2(kernel, (SIZE, SIZE)), (SIZE, SIZE)
    )
    return blurred + 0.02 * jax.random.normal(jax.random.key(0), image.shape), kernel


def run(blurred, kernel):
    """Return sums of some rows."""
    found = step(blurred, kernel)
    return [float(x) for x in jnp.abs(found[::16]).sum(1)]
