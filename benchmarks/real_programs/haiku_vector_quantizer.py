"""A vector-quantized autoencoder of haiku with convolutions and moving averages: 3 steps."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax


def forward(x, is_training):
    encoder = hk.Sequential(
        [hk.Conv2D(32, 4, 2), jax.nn.relu, hk.Conv2D(64, 4, 2), jax.nn.relu, hk.Conv2D(16, 1)]
    )
    decoder = hk.Sequential(
        [
            hk.Conv2DTranspose(64, 4, 2),
            jax.nn.relu,
            hk.Conv2DTranspose(32, 4, 2),
            jax.nn.relu,
            hk.Conv2D(3, 3),
        ]
    )
    quantizer = hk.nets.VectorQuantizerEMA(16, 64, commitment_cost=0.25, decay=0.95)
    found = quantizer(encoder(x), is_training)
    error = jnp.mean((decoder(found["quantize"]) - x) ** 2)
    return error + found["loss"], found["perplexity"]


network = hk.without_apply_rng(hk.transform_with_state(forward))
optimizer = optax.adam(1e-3)


@jax.jit
def step(params, state, moments, x):
    def loss(params):
        (value, perplexity), after = network.apply(params, state, x, True)
        return value, (perplexity, after)

    (value, (perplexity, state)), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, moments = optimizer.update(grads, moments)
    return optax.apply_updates(params, updates), state, moments, (value, perplexity)


def arguments():
    """Return weights, averages, moments and images."""
    x = jax.random.uniform(jax.random.key(0), (8, 32, 32, 3)) - 0.5
    params, state = network.init(jax.random.key(1), x, True)
    return params, state, optimizer.init(params), x


def run(params, state, moments, x):
    """Return losses and perplexities of 3 steps."""
    found = []
    for _ in range(3):
        params, state, moments, values = step(params, state, moments, x)
        found += map(float, values)
    return found
