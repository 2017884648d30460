"""Augmentations of dm_pix for a batch of images: flips, crops, colours, blur, rotation."""

from functools import partial

import dm_pix as pix
import jax
import jax.numpy as jnp


def augment(key, image):
    keys = jax.random.split(key, 6)
    image = pix.random_flip_left_right(keys[0], image)
    image = pix.random_crop(keys[1], image, (56, 56, 3))
    image = pix.random_brightness(keys[2], image, 0.2)
    image = pix.random_hue(keys[3], image, 0.1)
    image = pix.random_contrast(keys[4], image, 0.7, 1.3)
    image = pix.gaussian_blur(image, 1.0, 5)
    angle = jax.random.uniform(keys[5], minval=-0.3, maxval=0.3)
    return pix.rotate(image, angle, mode="reflect")


@partial(jax.jit)
def step(key, images):
    return jax.vmap(augment)(jax.random.split(key, len(images)), images)


def arguments():
    """Return a key and images."""
    return jax.random.key(0), jax.random.uniform(jax.random.key(1), (16, 64, 64, 3))


def run(key, images):
    """Return means and some pixels."""
    done = step(key, images)
    return [float(x) for x in jnp.concatenate([done.mean((1, 2, 3)), done[:, 20, 20, 1]])]
