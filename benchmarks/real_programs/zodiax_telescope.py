"""A telescope of zodiax: an optimizer for each parameter, then the inverse of Fisher's matrix.

Positions of the star and tilts of the wavefront move the image alike, so tilts are left out: with
them Fisher's matrix has a condition number of 1e8, and in 32 bits its inverse is of no digit.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import zodiax as zdx


class Telescope(zdx.Base):
    """A star seen through an aperture with a wavefront of Zernike's kind."""

    position: jax.Array
    flux: jax.Array
    coefficients: jax.Array

    def image(self, size=32):
        """Return the pixels of the star, size x size."""
        x, y = jnp.meshgrid(*[jnp.linspace(-1.0, 1.0, size)] * 2)
        radius, angle = jnp.hypot(x, y), jnp.arctan2(y, x)
        basis = jnp.stack([2 * radius**2 - 1, radius**2 * jnp.cos(2 * angle)])
        wave = jnp.tensordot(self.coefficients, basis, 1)
        wave += self.position[0] * x + self.position[1] * y
        field = jnp.where(radius < 1.0, jnp.exp(2j * jnp.pi * wave), 0.0)
        power = jnp.abs(jnp.fft.fftshift(jnp.fft.fft2(jnp.pad(field, size // 2)))) ** 2
        pixels = power.reshape(size, 2, size, 2).sum((1, 3))
        return self.flux * pixels / pixels.sum() + 10.0


STAR = Telescope(jnp.array([0.4, -0.3]), jnp.array(1e4), jnp.array([0.1, -0.06]))
NAMES = ("position", "flux", "coefficients")
OPTIMIZERS = {
    "position": optax.adam(1e-2),
    "flux": optax.adam(20.0),
    "coefficients": optax.sgd(zdx.delay(1e-6, 5), momentum=0.5),
}


def seen(values):
    return STAR.set(list(values), list(values.values())).image()


@eqx.filter_jit
def step(values, state, data):
    def cost(values):
        return -jnp.sum(zdx.loglike(data, seen(values), jnp.sqrt(data))) / data.size

    value, slopes = eqx.filter_value_and_grad(cost)(values)
    optimizer, _ = zdx.map_optimisers(values, OPTIMIZERS)
    updates, state = optimizer.update(zdx.zero_nan_check(slopes), state, values)
    jacobian, _ = zdx.jacobian(lambda x: seen(x).ravel(), values, jit=False)
    fisher = zdx.gauss_hessian(jacobian / jnp.sqrt(data).ravel()[:, None])
    return optax.apply_updates(values, updates), state, value, fisher


def arguments():
    """Return the first guess, the optimizers' state and the picture."""
    data = jax.random.poisson(jax.random.key(0), STAR.image()).astype(float) + 1.0
    guess = {name: getattr(STAR, name) * 1.1 for name in NAMES}
    _, state = zdx.map_optimisers(guess, OPTIMIZERS)
    return guess, state, data


def run(values, state, data):
    """Return the costs of 8 steps, the values' deviations, and the covariance's entropy."""
    costs = []
    for _ in range(8):
        values, state, value, fisher = step(values, state, data)
        costs.append(float(value))
    scale = jnp.sqrt(jnp.diag(fisher))
    covariance = jnp.linalg.inv(fisher / jnp.outer(scale, scale))
    deviations = jnp.sqrt(jnp.diag(covariance)) / scale
    return costs + [float(x) for x in deviations] + [float(zdx.calc_entropy(covariance))]
