"""A causal transformer of dm-haiku that learns characters, trained 5 steps with optax."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 3, 128, 4, 64, 8, 96


def network(words, training):
    x = hk.Embed(WORDS, WIDTH)(words)
    x = x + hk.get_parameter("positions", [LENGTH, WIDTH], init=hk.initializers.TruncatedNormal())
    mask = jnp.tril(jnp.ones((1, 1, LENGTH, LENGTH)))
    scale = hk.initializers.VarianceScaling(2 / LAYERS)
    for _ in range(LAYERS):
        attention = hk.MultiHeadAttention(HEADS, WIDTH // HEADS, w_init=scale)
        y = hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)
        y = attention(y, y, y, mask=mask)
        x = x + (hk.dropout(hk.next_rng_key(), 0.1, y) if training else y)
        y = hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)
        y = hk.Sequential([hk.Linear(4 * WIDTH), jax.nn.gelu, hk.Linear(WIDTH)])(y)
        x = x + (hk.dropout(hk.next_rng_key(), 0.1, y) if training else y)
    x = hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)
    return hk.Linear(WORDS)(x)


model = hk.transform(network)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-4))


@jax.jit
def step(params, state, key, words):
    def loss(params):
        logits = model.apply(params, key, words[:, :-1], True)
        return optax.softmax_cross_entropy_with_integer_labels(logits, words[:, 1:]).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, jax.random.split(key)[0], value


def arguments():
    """Return weights, the optimizer's state, a key and the words of one batch."""
    words = jax.random.randint(jax.random.key(1), (BATCH, LENGTH + 1), 0, WORDS)
    params = model.init(jax.random.PRNGKey(0), words[:, :-1], True)
    return params, optimizer.init(params), jax.random.PRNGKey(2), words


def run(params, state, key, words):
    """Return the losses of 5 steps."""
    losses = []
    for _ in range(5):
        params, state, key, value = step(params, state, key, words)
        losses.append(value)
    return [float(x) for x in losses]
