"""Optimizers of optax side by side: Muon, Adafactor, sharpness, lookahead, many small batches."""

import jax
import jax.numpy as jnp
import optax
from optax import contrib

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 12)
RECIPES = {
    "muon": contrib.muon(schedule),
    "adafactor": optax.adafactor(1e-2, min_dim_size_to_factor=16),
    "sharpness": contrib.sam(optax.sgd(1e-2), optax.sgd(5e-2), sync_period=2),
    "averaged": optax.MultiSteps(optax.lamb(schedule), every_k_schedule=3),
    "split": optax.multi_transform(
        {
            "w": optax.chain(optax.add_noise(0.1, 0.5, 1), optax.rmsprop(1e-3)),
            "b": optax.lion(1e-3),
        },
        {"first": {"w": "w", "b": "b"}, "last": {"w": "w", "b": "b"}},
    ),
    "free": contrib.schedule_free_adamw(1e-2, warmup_steps=2),
}


def loss(params, x, y):
    hidden = jax.nn.relu(x @ params["first"]["w"] + params["first"]["b"])
    return jnp.mean((hidden @ params["last"]["w"] + params["last"]["b"] - y) ** 2)


@jax.jit
def step(params, states, x, y):
    found, after = {}, {}
    for name, recipe in RECIPES.items():
        value, grads = jax.value_and_grad(loss)(params[name], x, y)
        updates, after[name] = recipe.update(grads, states[name], params[name])
        found[name] = optax.apply_updates(params[name], updates), value
    return {k: v[0] for k, v in found.items()}, after, [v[1] for v in found.values()]


def arguments():
    """Return weights and states by recipe, and data."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "first": {"w": 0.2 * jax.random.normal(keys[0], (32, 64)), "b": jnp.zeros(64)},
        "last": {"w": 0.2 * jax.random.normal(keys[1], (64, 16)), "b": jnp.zeros(16)},
    }
    x = jax.random.normal(keys[2], (96, 32))
    states = {name: recipe.init(params) for name, recipe in RECIPES.items()}
    return dict.fromkeys(RECIPES, params), states, x, jnp.cos(x[:, :16])


def run(params, states, x, y):
    """Return the losses of 8 steps."""
    found = []
    for _ in range(8):
        params, states, values = step(params, states, x, y)
        found += map(float, values)
    return found
