"""A score of diffused images by an MLP mixer of equinox: 4 steps, and 20 steps of sampling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

SIDE, PATCH, WIDTH = 16, 4, 32


class Mixer(eqx.Module):
    """Patches and channels mixed in turn, with the time as a further channel."""

    into: eqx.nn.Conv2d
    out: eqx.nn.ConvTranspose2d
    across: list
    within: list
    norms: list

    def __init__(self, key):
        keys = iter(jax.random.split(key, 8))
        patches = (SIDE // PATCH) ** 2
        self.into = eqx.nn.Conv2d(2, WIDTH, PATCH, PATCH, key=next(keys))
        self.out = eqx.nn.ConvTranspose2d(WIDTH, 1, PATCH, PATCH, key=next(keys))
        self.across = [eqx.nn.MLP(patches, patches, 64, 1, key=next(keys)) for _ in range(3)]
        self.within = [eqx.nn.MLP(WIDTH, WIDTH, 64, 1, key=next(keys)) for _ in range(3)]
        self.norms = [eqx.nn.LayerNorm((WIDTH, patches)) for _ in range(3)]

    def __call__(self, t, x):
        """Return the score."""
        y = self.into(jnp.concatenate([x, jnp.full_like(x, t / 10)]))
        shape, y = y.shape, y.reshape(WIDTH, -1)
        for across, within, norm in zip(self.across, self.within, self.norms, strict=True):
            y = y + jax.vmap(across)(norm(y))
            y = y + jax.vmap(within, 1, 1)(y)
        return self.out(y.reshape(shape))


optimizer = optax.adabelief(3e-4)


def loss(network, x, key):
    keys = jax.random.split(key, len(x))

    def one(x, key):
        when, what = jax.random.split(key)
        t = jax.random.uniform(when, minval=0.0, maxval=10.0)
        noise = jax.random.normal(what, x.shape)
        spread = jnp.sqrt(jnp.maximum(1 - jnp.exp(-t), 1e-5))
        guess = network(t, x * jnp.exp(-0.5 * t) + spread * noise)
        return jnp.mean((guess + noise / spread) ** 2) * (1 - jnp.exp(-t))

    return jnp.mean(jax.vmap(one)(x, keys))


@eqx.filter_jit
def step(network, state, x, key):
    value, grads = eqx.filter_value_and_grad(loss)(network, x, key)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(network, updates), state, value


@eqx.filter_jit
def sampled(network, key):
    def back(t, y):
        return y + 0.5 * (0.5 * y + 0.5 * network(10.0 - 0.5 * t, y))

    return jax.lax.fori_loop(0, 20, back, jax.random.normal(key, (1, SIDE, SIDE)))


def arguments():
    """Return the network, the optimizer's state, images and a key."""
    network = Mixer(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (16, 1, SIDE, SIDE))
    state = optimizer.init(eqx.filter(network, eqx.is_inexact_array))
    return network, state, x, jax.random.key(2)


def run(network, state, x, key):
    """Return the losses of 4 steps, and two numbers of what is sampled."""
    found = []
    for one in jax.random.split(key, 4):
        network, state, value = step(network, state, x, one)
        found.append(float(value))
    image = sampled(network, key)
    return [*found, float(image.std()), float(jnp.abs(image).max())]
