"""A graph network of jraph with haiku's layers, trained 5 steps on a random graph."""

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import optax

NODES, EDGES = 500, 3000


def network(graph):
    def layer(size):
        dense = hk.Sequential([hk.Linear(64), jax.nn.relu, hk.Linear(size)])
        return lambda *parts: dense(jnp.concatenate(parts, -1))

    embed = jraph.GraphMapFeatures(hk.Linear(32), hk.Linear(32))
    graph = embed(graph)
    for _ in range(2):
        edges, nodes = layer(32), layer(32)
        graph = jraph.GraphNetwork(
            update_edge_fn=lambda e, s, r, g, f=edges: f(e, s, r),
            update_node_fn=lambda n, s, r, g, f=nodes: f(n, s, r),
        )(graph)
    return hk.Linear(4)(graph.nodes)


model = hk.without_apply_rng(hk.transform(network))
optimizer = optax.adam(1e-3)


@jax.jit
def step(params, state, graph, labels):
    def loss(params):
        logits = model.apply(params, graph)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def arguments():
    """Return weights, the optimizer's state, the graph and labels of its nodes."""
    keys = jax.random.split(jax.random.key(0), 4)
    graph = jraph.GraphsTuple(
        nodes=jax.random.normal(keys[0], (NODES, 8)),
        edges=jax.random.normal(keys[1], (EDGES, 3)),
        senders=jax.random.randint(keys[2], (EDGES,), 0, NODES),
        receivers=jax.random.randint(keys[3], (EDGES,), 0, NODES),
        globals=jnp.zeros((1, 1)),
        n_node=jnp.array([NODES]),
        n_edge=jnp.array([EDGES]),
    )
    params = model.init(jax.random.PRNGKey(0), graph)
    return params, optimizer.init(params), graph, jnp.argmax(graph.nodes[:, :4], -1)


def run(params, state, graph, labels):
    """Return the losses of 5 steps."""
    losses = []
    for _ in range(5):
        params, state, value = step(params, state, graph, labels)
        losses.append(value)
    return [float(x) for x in losses]
