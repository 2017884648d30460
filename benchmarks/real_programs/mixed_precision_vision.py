"""A vision transformer of flax.linen in float16 with a scale of the loss, trained 2 steps."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

optimizer = optax.adamw(1e-3)


class Vision(nn.Module):
    """Patches, three layers of attention, a mean and ten scores."""

    @nn.compact
    def __call__(self, images):
        """Return scores."""
        half = jnp.float16
        x = nn.Conv(96, (4, 4), strides=(4, 4), dtype=half)(images)
        x = x.reshape(len(x), -1, 96)
        x = x + self.param("positions", nn.initializers.normal(0.02), x.shape[1:]).astype(half)
        for _ in range(3):
            y = nn.LayerNorm(dtype=half)(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=4, dtype=half)(y, y)
            y = nn.LayerNorm(dtype=half)(x)
            x = x + nn.Dense(96, dtype=half)(nn.gelu(nn.Dense(384, dtype=half)(y)))
        return nn.Dense(10, dtype=half)(x.mean(1)).astype(jnp.float32)


model = Vision()


@jax.jit
def step(params, state, scale, images, labels):
    def loss(params):
        logits = model.apply(params, images)
        return scale * optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(loss)(params)
    grads = jax.tree.map(lambda g: g / scale, grads)
    finite = jnp.all(jnp.array([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))
    updates, moved = optimizer.update(grads, state, params)

    def chosen(new, old):
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)

    params = chosen(optax.apply_updates(params, updates), params)
    return params, chosen(moved, state), jnp.where(finite, scale, scale / 2), value / scale


def arguments():
    """Return weights, the optimizer's state, the scale, images and labels."""
    images = jax.random.normal(jax.random.key(1), (8, 32, 32, 3))
    params = model.init(jax.random.key(0), images)
    return params, optimizer.init(params), jnp.float32(256.0), images, jnp.arange(8) % 10


def run(params, state, scale, images, labels):
    """Return the losses of 2 steps."""
    losses = []
    for _ in range(2):
        params, state, scale, value = step(params, state, scale, images, labels)
        losses.append(value)
    return [float(x) for x in losses]
