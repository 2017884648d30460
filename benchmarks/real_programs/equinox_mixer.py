"""An MLP mixer of equinox that generates images by a score, as its documentation does: 5 steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

SIDE, PATCH, HIDDEN = 16, 4, 32
PATCHES = (SIDE // PATCH) ** 2


class Mixer(eqx.Module):
    """Patches that are mixed, and each by itself, in three blocks."""

    cut: eqx.nn.Conv2d
    join: eqx.nn.ConvTranspose2d
    blocks: list
    norms: list

    def __init__(self, key):
        keys = jax.random.split(key, 8)
        self.cut = eqx.nn.Conv2d(2, HIDDEN, PATCH, stride=PATCH, key=keys[0])
        self.join = eqx.nn.ConvTranspose2d(HIDDEN, 1, PATCH, stride=PATCH, key=keys[1])
        sizes = [PATCHES, HIDDEN] * 3
        self.blocks = [eqx.nn.MLP(x, x, 64, 1, key=k) for x, k in zip(sizes, keys[2:], strict=True)]
        self.norms = [eqx.nn.LayerNorm((HIDDEN, PATCHES)) for _ in range(3)]

    def __call__(self, t, image):
        """Return the score of an image at a time."""
        x = self.cut(jnp.concatenate([image, jnp.full_like(image, t)]))
        _, high, wide = x.shape
        x = x.reshape(HIDDEN, PATCHES)
        for i, norm in enumerate(self.norms):
            x = x + jax.vmap(self.blocks[2 * i])(norm(x))
            x = x + jax.vmap(self.blocks[2 * i + 1], 1, 1)(norm(x))
        return self.join(x.reshape(HIDDEN, high, wide))


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adabelief(1e-3))


@eqx.filter_jit
def step(model, state, images, key):
    def cost(model, image, t, key):
        noise = jax.random.normal(key, image.shape)
        far = jnp.maximum(1 - jnp.exp(-t), 1e-5)
        score = model(t, image * jnp.exp(-t / 2) + jnp.sqrt(far) * noise)
        return (1 - jnp.exp(-t)) * jnp.mean((score + noise / jnp.sqrt(far)) ** 2)

    @eqx.filter_value_and_grad
    def loss(model):
        a, b = jax.random.split(key)
        t = jax.random.uniform(a, (len(images),)) * 10
        keys = jax.random.split(b, len(images))
        return jax.vmap(lambda x, t, k: cost(model, x, t, k))(images, t, keys).mean()

    value, grads = loss(model)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(model, updates), state, value


def arguments():
    """Return the model, the optimizer's state, images and a key."""
    model = Mixer(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (32, 1, SIDE, SIDE))
    return model, optimizer.init(eqx.filter(model, eqx.is_array)), images, jax.random.key(2)


def run(model, state, images, key):
    """Return the losses of 5 steps."""
    losses = []
    for _ in range(5):
        key, own = jax.random.split(key)
        model, state, value = step(model, state, images, own)
        losses.append(value)
    return [float(x) for x in losses]
