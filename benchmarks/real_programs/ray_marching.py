"""Spheres drawn by marching along rays, rows by `jax.lax.map`, and a gradient of the light."""

import jax
import jax.numpy as jnp

SIDE = 48


def distance(spheres, point):
    balls = jnp.linalg.norm(point - spheres[:, :3], axis=-1) - spheres[:, 3]
    return jnp.minimum(balls.min(), point[1] + 1.0)


def pixel(spheres, light, ray):
    def further(_, t):
        return t + distance(spheres, t * ray)

    t = jax.lax.fori_loop(0, 24, further, 0.0)
    normal = jax.grad(lambda p: distance(spheres, p))(t * ray)
    return jnp.where(t < 20.0, jnp.maximum(normal @ light, 0.0), 0.1)


@jax.jit
def step(spheres, light):
    across = jnp.linspace(-1.0, 1.0, SIDE)

    def row(light, y):
        rays = jnp.stack([across, jnp.full(SIDE, y), jnp.ones(SIDE)], -1)
        rays = rays / jnp.linalg.norm(rays, axis=-1, keepdims=True)
        return jax.vmap(lambda ray: pixel(spheres, light, ray))(rays)

    def brightness(light):
        image = jax.lax.map(lambda y: row(light, y), -across)
        return image.mean(), image

    return jax.value_and_grad(brightness, has_aux=True)(light)


def arguments():
    """Return spheres and the direction of the light."""
    spheres = jnp.array([[0, 0, 3, 1], [1.2, 0.4, 2.5, 0.4], [-1.1, -0.4, 2.2, 0.5]])
    return spheres, jnp.array([0.5, 0.7, -0.5])


def run(spheres, light):
    """Return the brightness, its slope, and a row of the image."""
    (value, image), slope = step(spheres, light)
    return [float(x) for x in (value, *slope, *image[20, ::4])]
