"""A small network for images, trained for some steps."""

import jax
import jax.numpy as jnp
import numpy as np

import lowtide

random = np.random.default_rng(6)
images = random.standard_normal((16, 12, 12, 1)).astype(np.float32)
labels = (images.mean((1, 2, 3)) > 0).astype(np.int32)
params = {
    "conv": random.standard_normal((3, 3, 1, 4)).astype(np.float32) * 0.3,
    "dense": random.standard_normal((4, 2)).astype(np.float32) * 0.3,
}


def loss(p, x, y):
    x = jax.lax.conv_general_dilated(
        x, p["conv"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = jax.lax.reduce_window(
        jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )
    logits = x.mean((1, 2)) @ p["dense"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


step = lowtide.jit(jax.value_and_grad(loss), output="jax")
for i in range(20):
    value, grads = step(params, images, labels)
    params = jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)
    if i % 5 == 0:
        print(float(value))
