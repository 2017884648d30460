"""Selective state spaces in the manner of Mamba, an associative scan along time: 2 steps."""

import jax
import jax.numpy as jnp
import optax

BATCH, TIME, WIDTH, STATES = 4, 128, 64, 8
optimizer = optax.lion(1e-3)


def joined(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def layer(params, x):
    x = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    inner, gate = jnp.split(x @ params["in"], 2, -1)
    inner = jax.lax.conv_general_dilated(
        jnp.pad(inner, ((0, 0), (3, 0), (0, 0))),
        params["taps"],
        (1,),
        "VALID",
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=WIDTH,
    )
    inner = jax.nn.silu(inner)
    size = jax.nn.softplus(inner @ params["size"] - 3.0)
    decay = jnp.exp(-size[..., None] * jnp.exp(params["decay"]))
    drive = (size * inner)[..., None] * (inner @ params["write"])[:, :, None]
    _, states = jax.lax.associative_scan(joined, (decay, drive), axis=1)
    found = jnp.einsum("btds,bts->btd", states, inner @ params["read"]) + inner
    return x + (found * jax.nn.silu(gate)) @ params["out"]


@jax.jit
def step(layers, moments, x, y):
    def loss(layers):
        found = x
        for params in layers:
            found = layer(params, found)
        return jnp.mean((found - y) ** 2)

    value, grads = jax.value_and_grad(loss)(layers)
    updates, moments = optimizer.update(grads, moments, layers)
    return optax.apply_updates(layers, updates), moments, value


def begun(key):
    """Return the weights of a layer."""
    shapes = {
        "in": (WIDTH, 2 * WIDTH),
        "taps": (4, 1, WIDTH),
        "size": (WIDTH, WIDTH),
        "write": (WIDTH, STATES),
        "read": (WIDTH, STATES),
        "out": (WIDTH, WIDTH),
    }
    keys = jax.random.split(key, len(shapes))
    params = {
        name: jax.random.normal(key, shape) / shape[0] ** 0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    rates = jnp.log(jnp.arange(1.0, STATES + 1))
    return {**params, "decay": jnp.broadcast_to(rates, (WIDTH, STATES))}


def arguments():
    """Return the layers, their moments, and a sequence with the one that is wanted."""
    layers = [begun(jax.random.key(number)) for number in range(2)]
    x = jax.random.normal(jax.random.key(9), (BATCH, TIME, WIDTH))
    return layers, optimizer.init(layers), x, jnp.roll(x, 1, 1)


def run(layers, moments, x, y):
    """Return the losses of 2 steps."""
    losses = []
    for _ in range(2):
        layers, moments, value = step(layers, moments, x, y)
        losses.append(value)
    return [float(x) for x in losses]
