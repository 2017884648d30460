"""A network of flax.linen, trained with optax.

needs: flax optax
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

import lowtide


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(32)(x)
        x = nn.LayerNorm()(nn.gelu(x))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(3)(x)


network = Network()
x = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
y = np.argmax(x[:, :3], 1)
params = network.init(jax.random.key(0), x, False)["params"]
state = TrainState.create(apply_fn=network.apply, params=params, tx=optax.adamw(1e-2))


@lowtide.jit
def train(state, x, y, key):
    def loss(params):
        logits = state.apply_fn({"params": params}, x, True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    value, grads = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


key = jax.random.key(1)
for i in range(12):
    key, now = jax.random.split(key)
    state, value = train(state, x, y, now)
    if i % 4 == 0:
        print(float(value))
print(int(state.step), float(jnp.abs(state.params["Dense_1"]["kernel"]).sum()))
