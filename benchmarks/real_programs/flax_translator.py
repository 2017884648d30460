"""Two LSTMs of flax.linen, one reads and one writes sums of digits, trained 3 steps."""

import flax.linen as nn
import jax
import optax
from flax.training.train_state import TrainState

LENGTH, SYMBOLS = 12, 16


class Translator(nn.Module):
    """The encoder's last state begins the decoder."""

    @nn.compact
    def __call__(self, question, answer):
        """Return logits of the next symbols."""
        embed = nn.Embed(SYMBOLS, 32)
        carry, _ = nn.RNN(nn.OptimizedLSTMCell(128), return_carry=True)(embed(question))
        x = nn.RNN(nn.OptimizedLSTMCell(128))(embed(answer), initial_carry=carry)
        return nn.Dense(SYMBOLS)(x)


@jax.jit
def step(state, question, answer):
    def loss(params):
        logits = state.apply_fn({"params": params}, question, answer[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, answer[:, 1:]).mean()

    value, grads = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


def arguments():
    """Return the state, questions and answers."""
    question = jax.random.randint(jax.random.key(1), (64, LENGTH), 0, SYMBOLS)
    answer = (question + question[:, ::-1]) % SYMBOLS
    network = Translator()
    params = network.init(jax.random.key(0), question, answer[:, :-1])["params"]
    tx = optax.adam(3e-3)
    return TrainState.create(apply_fn=network.apply, params=params, tx=tx), question, answer


def run(state, question, answer):
    """Return the losses of 3 steps."""
    losses = []
    for _ in range(3):
        state, value = step(state, question, answer)
        losses.append(value)
    return [float(x) for x in losses]
