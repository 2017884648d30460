"""Warnings as errors and a logger on the output: nothing of the compiler shows."""

import logging
import sys
import warnings

import jax
import jax.numpy as jnp

import lowtide

warnings.simplefilter("error")
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s %(message)s")
logging.getLogger("jax").setLevel(logging.WARNING)
log = logging.getLogger("training")


@lowtide.jit
def entropy(logits):
    p = jax.nn.softmax(logits)
    return -jnp.sum(p * jnp.log(p))


for scale in (0.1, 1.0, 10.0):
    log.info("scale %s entropy %.4f", scale, float(entropy(scale * jnp.arange(5.0))))
