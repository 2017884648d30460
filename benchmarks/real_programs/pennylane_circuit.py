"""A variational circuit of PennyLane on six qubits: six steps of gradient descent."""

import jax
import jax.numpy as jnp
import optax
import pennylane as qml

QUBITS, LAYERS = 6, 3
device = qml.device("default.qubit", wires=QUBITS)
optimizer = optax.adam(0.1)


@qml.qnode(device, interface="jax", diff_method="backprop")
def circuit(weights, angles):
    """Return what the first qubits show."""
    qml.AngleEmbedding(angles, wires=range(QUBITS))
    qml.StronglyEntanglingLayers(weights, wires=range(QUBITS))
    return [qml.expval(qml.PauliZ(x)) for x in range(2)]


@jax.jit
def step(weights, state, angles, labels):
    def loss(weights):
        shown = jax.vmap(lambda x: jnp.stack(circuit(weights, x)))(angles)
        return jnp.mean((shown - labels) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(weights, updates), state, value


def arguments():
    """Return weights, the optimizer's state, angles, and labels."""
    weights = jax.random.uniform(jax.random.key(0), (LAYERS, QUBITS, 3))
    angles = jax.random.uniform(jax.random.key(1), (16, QUBITS))
    labels = jnp.where(angles[:, :2] > 0.5, 1.0, -1.0)
    return weights, optimizer.init(weights), angles, labels


def run(weights, state, angles, labels):
    """Return the losses of 6 steps."""
    losses = []
    for _ in range(6):
        weights, state, value = step(weights, state, angles, labels)
        losses.append(value)
    return [float(x) for x in losses]
