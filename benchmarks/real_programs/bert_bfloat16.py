"""A small BERT of transformers whose layers compute in bfloat16, trained 2 steps."""

import jax
import jax.numpy as jnp
import optax
from transformers import BertConfig, FlaxBertForSequenceClassification

config = BertConfig(
    hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512,
    vocab_size=1000, max_position_embeddings=64, num_labels=3,
)  # fmt: skip
model = FlaxBertForSequenceClassification(config, seed=0, dtype=jnp.bfloat16)
optimizer = optax.adamw(1e-4)


@jax.jit
def step(params, state, words, labels, key):
    def loss(params):
        logits = model(words, params=params, train=True, dropout_rng=key).logits
        logits = logits.astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return weights, the optimizer's state, words, labels and a key."""
    words = jax.random.randint(jax.random.key(1), (8, 64), 0, config.vocab_size)
    state = optimizer.init(model.params)
    return model.params, state, words, jnp.arange(8) % 3, jax.random.PRNGKey(2)


def run(params, state, words, labels, key):
    """Return the losses of 2 steps."""
    losses = []
    for _ in range(2):
        params, state, value = step(params, state, words, labels, key)
        losses.append(value)
    return [float(x) for x in losses]
