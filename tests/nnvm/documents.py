"""Graphs in the forms of NNVM, MXNet and Relay's graph executor, written by hand."""

import json


class Document:
    """A graph under construction; nodes are known by their numbers."""

    def __init__(self, key="attrs"):
        self.key, self.nodes, self.heads = key, [], []

    def given(self, name):
        """An argument."""
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        return len(self.nodes) - 1

    def op(self, op, inputs, name=None, **attributes):
        """An operation; an input is a node, or a node and the number of its output."""
        pairs = [[*(x if isinstance(x, tuple) else (x, 0)), 0] for x in inputs]
        node = {"op": op, "name": name or f"{op}{len(self.nodes)}", "inputs": pairs}
        if attributes:
            node[self.key] = {x: str(y) for x, y in attributes.items()}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def content(self, *heads, **attributes):
        """The document as an object."""
        arguments = [i for i, x in enumerate(self.nodes) if x["op"] == "null"]
        pairs = [[*(x if isinstance(x, tuple) else (x, 0)), 0] for x in heads]
        found = {"nodes": self.nodes, "arg_nodes": arguments, "heads": pairs}
        return {**found, **({"attrs": attributes} if attributes else {})}

    def text(self, *heads, **attributes):
        """The document as JSON."""
        return json.dumps(self.content(*heads, **attributes))


def convolution(d, x, channels, size=3, name=None):
    """A convolution of MXNet with weights and bias of its own."""
    n = len(d.nodes)
    weights = [d.given(f"w{n}"), d.given(f"b{n}")]
    attributes = {"kernel": (size, size), "num_filter": channels, "pad": (size // 2, size // 2)}
    return d.op("Convolution", [x, *weights], name, **attributes)


def residual():
    d = Document()
    x = d.given("data")
    for _ in range(3):
        y = d.op("Activation", [convolution(d, x, 8)], act_type="relu")
        x = d.op("elemwise_add", [convolution(d, y, 8), x])
    return d.content(d.op("Flatten", [x])), {"data": (1, 8, 10, 12)}


def chain():
    d = Document("attr")
    x = d.given("data")
    for name in ("relu", "sigmoid", "tanh", "exp", "negative", "__add_scalar__"):
        x = d.op(name, [x], **({"scalar": 2.5} if name == "__add_scalar__" else {}))
    return d.content(x), {"data": (7, 33)}


def added():
    """Sums in which no operand dies at the first, one at the second."""
    d = Document("param")
    x = d.op("relu", [d.given("data")])
    y = d.op("_plus", [x, x])
    z = d.op("ElementWiseSum", [x, y, d.op("exp", [y])])
    return d.content(d.op("_mul", [z, y])), {"data": (4, 16)}


def several():
    """Parts of one node, some of them heads, one never read."""
    d = Document()
    x = d.op("exp", [d.given("data")])
    parts = d.op("SliceChannel", [x], num_outputs=4, axis=1)
    left = d.op("relu", [(parts, 0)])
    both = d.op("Concat", [left, (parts, 3)], dim=1)
    return d.content(both, (parts, 1)), {"data": (3, 8, 5)}


def recurrent(steps=40):
    """A long network of one layer: each step reads the last state and a slice of the input."""
    d = Document()
    x, state = d.given("data"), d.given("state")
    weights = [d.given(name) for name in ("wx", "bx", "wh", "bh")]
    parts = d.op("SliceChannel", [x], num_outputs=steps, axis=1, squeeze_axis=True)
    for step in range(steps):
        sizes = {"num_hidden": 12}
        a = d.op("FullyConnected", [(parts, step), *weights[:2]], **sizes)
        b = d.op("FullyConnected", [state, *weights[2:]], **sizes)
        state = d.op("Activation", [d.op("elemwise_add", [a, b])], act_type="tanh")
    return d.content(state), {"data": (2, steps, 6), "state": (2, 12)}


def inception():
    """Branches of several widths, concatenated, with pools of both kinds."""
    d = Document()
    x = d.given("data")
    for _ in range(2):
        one = d.op("Activation", [convolution(d, x, 6, 1)], act_type="relu")
        three = convolution(d, d.op("relu", [convolution(d, x, 4, 1)]), 8)
        five = convolution(d, d.op("relu", [convolution(d, x, 2, 1)]), 4, 5)
        pool = d.op("Pooling", [x], kernel=(3, 3), pad=(1, 1), pool_type="max")
        x = d.op("Concat", [one, three, five, convolution(d, pool, 3, 1)], dim=1)
    x = d.op("Pooling", [x], global_pool=True, pool_type="avg", kernel=(1, 1))
    weights = [d.given("fw"), d.given("fb")]
    x = d.op("FullyConnected", [d.op("Flatten", [x]), *weights], num_hidden=10)
    return d.content(d.op("softmax", [x])), {"data": (1, 3, 14, 15)}


GRAPHS = {
    "residual": residual(),
    "in place": chain(),
    "sums": added(),
    "several outputs": several(),
    "long": recurrent(),
    "inception": inception(),
}
"""Documents, and the shapes of their arguments that nothing else tells."""


def compiled():
    """A graph of Relay's executor: functions, with shapes, types and rows for all entries."""
    d = Document()
    x, w = d.given("data"), d.given("p0")
    for number, (name, inputs) in enumerate(
        [("fused_dense", [x, w]), ("fused_relu", [2]), ("fused_split", [3]), ("fused_add", [])]
    ):
        given = inputs or [(4, 0), (4, 1)]
        outputs = 2 if name == "fused_split" else 1
        d.op(
            "tvm_op",
            given,
            name,
            func_name=name,
            num_inputs=len(given),
            num_outputs=outputs,
            flatten_data=0,
        )
        assert number < 4
    shapes = [[4, 8], [16, 8], [4, 16], [4, 16], [4, 8], [4, 8], [4, 8]]
    found = d.content(
        5,
        shape=["list_shape", shapes],
        dltype=["list_str", ["float32"] * 7],
        storage_id=["list_int", [0, 1, 2, 3, 2, 4, 3]],
    )
    return {**found, "node_row_ptr": [0, 1, 2, 3, 4, 6, 7]}
