"""Graphs of molecules in batches: attention of jraph, global features, padded; 4 steps."""

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax


def forward(graph):
    embed = jraph.GraphMapFeatures(hk.Linear(24), hk.Linear(24), hk.Linear(24))
    attention = jraph.GAT(
        hk.Linear(24),
        lambda sent, received, edges: hk.Linear(1)(jnp.concatenate([sent, received, edges], -1)),
        lambda nodes: jax.nn.relu(nodes),
    )

    @jraph.concatenated_args
    def update(features):
        return hk.nets.MLP([48, 24])(features)

    messages = jraph.GraphNetwork(update, update, update, attention_logit_fn=None)
    graph = messages(attention(embed(graph)))
    return hk.Linear(2)(graph.globals)


network = hk.without_apply_rng(hk.transform(forward))
optimizer = optax.adam(1e-2)


@jax.jit
def step(params, state, graph, labels):
    def loss(params):
        scores = network.apply(params, graph)
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, labels)
        return jnp.sum(losses * jraph.get_graph_padding_mask(graph))

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def molecule(random):
    nodes, edges = random.integers(5, 20), random.integers(10, 40)
    return jraph.GraphsTuple(
        nodes=random.normal(size=(nodes, 9)).astype(np.float32),
        edges=random.normal(size=(edges, 4)).astype(np.float32),
        senders=random.integers(0, nodes, edges),
        receivers=random.integers(0, nodes, edges),
        globals=np.ones((1, 1), np.float32),
        n_node=np.array([nodes]),
        n_edge=np.array([edges]),
    )


def arguments():
    """Return weights, the optimizer's state, padded graphs and labels."""
    random = np.random.default_rng(0)
    graphs = jraph.batch_np([molecule(random) for _ in range(24)])
    graphs = jraph.pad_with_graphs(graphs, 512, 1024, 25)
    params = network.init(jax.random.key(0), graphs)
    return params, optimizer.init(params), graphs, random.integers(0, 2, 25)


def run(params, state, graph, labels):
    """Return the losses of 4 steps."""
    found = []
    for _ in range(4):
        params, state, value = step(params, state, graph, labels)
        found.append(float(value))
    return found
