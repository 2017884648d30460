"""A small GPT-2 of transformers that writes 24 words with its cache, one jitted loop."""

import jax
import jax.numpy as jnp
from transformers import FlaxGPT2LMHeadModel, GPT2Config

config = GPT2Config(
    n_layer=3, n_embd=192, n_head=6, vocab_size=2048, n_positions=64, bos_token_id=0, eos_token_id=1
)
model = FlaxGPT2LMHeadModel(config, seed=0)


@jax.jit
def step(params, words):
    cache = model.init_cache(words.shape[0], config.n_positions)
    mask = jnp.ones((words.shape[0], config.n_positions), "i4")
    at = jnp.broadcast_to(jnp.arange(words.shape[1]), words.shape)
    out = model(words, mask, at, params=params, past_key_values=cache)

    def next_word(carry, position):
        cache, word = carry
        where = jnp.full_like(word, position)
        out = model(word, mask, where, params=params, past_key_values=cache)
        word = out.logits[:, -1:].argmax(-1).astype(word.dtype)
        return (out.past_key_values, word), word[:, 0]

    first = out.logits[:, -1:].argmax(-1).astype(words.dtype)
    begin = (out.past_key_values, first)
    _, rest = jax.lax.scan(next_word, begin, words.shape[1] + jnp.arange(23))
    return jnp.concatenate([first, rest.T], 1)


def arguments():
    """Return weights and the beginnings of four texts."""
    return model.params, jax.random.randint(jax.random.key(1), (4, 16), 0, config.vocab_size)


def run(params, words):
    """Return the words."""
    return [float(x) for x in step(params, words).ravel()]
