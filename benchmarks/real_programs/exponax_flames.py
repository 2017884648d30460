"""The Kuramoto-Sivashinsky equation in one dimension and Burgers' in two, by exponax's FFTs."""

import exponax as ex
import jax
import jax.numpy as jnp

flame = ex.stepper.KuramotoSivashinskyConservative(1, 60.0, 200, 0.05)
burgers = ex.stepper.Burgers(2, 1.0, 64, 0.01, diffusivity=0.01)


@jax.jit
def step(u, v):
    return ex.rollout(flame, 200)(u), ex.repeat(burgers, 20)(v)


def arguments():
    """Return beginnings of both."""
    u = ex.ic.RandomTruncatedFourierSeries(1, cutoff=5)(200, key=jax.random.key(0))
    v = ex.ic.RandomTruncatedFourierSeries(2, cutoff=3)(64, key=jax.random.key(1))
    return u, jnp.concatenate([v, -v])


def run(u, v):
    """Return norms of the first states and of the last one."""
    us, v = step(u, v)
    norms = jnp.linalg.norm(us[:40, 0], axis=-1)
    return [float(x) for x in norms] + [float(jnp.linalg.norm(v)), float(v[0, 3, 4])]
