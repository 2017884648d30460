"""Two layers and Adam, written out; the state is donated at each step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import lowtide


def init(key):
    first, second = jax.random.split(key)
    return [
        (jax.random.normal(first, (16, 64)) * 0.1, jnp.zeros(64)),
        (jax.random.normal(second, (64, 1)) * 0.1, jnp.zeros(1)),
    ]


def predict(params, x):
    (w1, b1), (w2, b2) = params
    return (jnp.tanh(x @ w1 + b1) @ w2 + b2)[:, 0]


@partial(lowtide.jit, donate_argnums=(0,), output="jax")
def train(state, x, y):
    params, m, v, t = state
    value, grads = jax.value_and_grad(lambda p: jnp.mean((predict(p, x) - y) ** 2))(params)
    t = t + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    rate = 0.01 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    params = jax.tree.map(lambda p, a, b: p - rate * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return (params, m, v, t), value


params = init(jax.random.PRNGKey(0))
state = params, *[jax.tree.map(jnp.zeros_like, params) for _ in range(2)], jnp.float32(0)
x = np.linspace(-1, 1, 128 * 16, dtype=np.float32).reshape(128, 16)
y = np.sin(3 * x.sum(1))
for i in range(40):
    state, value = train(state, x, y)
    if i % 10 == 9:
        print(f"{float(value):.4f}")
