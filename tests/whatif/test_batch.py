"""The batch: found by how sizes travel, and half of it takes what the program takes when it is
written with half of it."""

import json

import numpy as np
import pytest

import lowtide
from lowtide.compiler import PlanOptions, plan
from lowtide.fitting.batch import axis_text, batch_of
from lowtide.ir import LowtideError
from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.batching import batch_changes, batch_question

jax = pytest.importorskip("jax")
jnp = jax.numpy


def spec(*sizes: int, dtype=np.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def mlp(w, x):
    return jax.nn.softmax(jnp.tanh(jnp.tanh(x @ w["a"]) @ w["b"]) @ w["c"])


MLP = {"a": spec(48, 40), "b": spec(40, 56), "c": spec(56, 24)}


def mlp_step(w, x, labels):
    def loss(w):
        logits = jnp.log(mlp(w, x))
        return -jnp.mean(logits[jnp.arange(len(labels)), labels])

    value, gradient = jax.value_and_grad(loss)(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradient), value


def attention(w, x):
    for layer in w:
        q, k, v = (x @ layer[name] for name in "qkv")
        weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k))
        x = x + jnp.tanh(weights @ v) @ layer["o"]
        x = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-3)
    return x


ATTENTION = [{name: spec(32, 32) for name in "qkvo"} for _ in range(3)]


def attention_step(w, x, y):
    value, gradient = jax.value_and_grad(lambda w: ((attention(w, x) - y) ** 2).mean())(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradient), value


def convolve(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def batch_norm_net(w, x):
    for kernel in w:
        x = convolve(x, kernel)
        x = (x - x.mean((0, 1, 2))) / (x.std((0, 1, 2)) + 1e-3)
        x = jax.nn.relu(x)
    return x


def batch_norm_step(w, x, y):
    def loss(w):
        return ((batch_norm_net(w, x).mean((1, 2)) - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradient), value


KERNELS = [spec(3, 3, 8, 8), spec(3, 3, 8, 8), spec(3, 3, 8, 8)]


def recurrent(w, xs):
    def step(h, x):
        h = jnp.tanh(h @ w["h"] + x @ w["x"])
        return h, h

    return jax.lax.scan(step, jnp.zeros((xs.shape[1], 24)), xs)[1] @ w["out"]


RECURRENT = {"h": spec(24, 24), "x": spec(12, 24), "out": spec(24, 10)}


def recurrent_step(w, xs, ys):
    value, gradient = jax.value_and_grad(lambda w: ((recurrent(w, xs) - ys) ** 2).sum())(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradient), value


def decode(w, cache, x):
    """One step for each sequence of a batch that has a cache of keys, which is returned."""
    for i, layer in enumerate(w):
        cache = cache.at[i, :, -1].set(x @ layer["k"])
        weights = jax.nn.softmax(jnp.einsum("bd,bsd->bs", x @ layer["q"], cache[i]))
        x = x + jnp.einsum("bs,bsd->bd", weights, cache[i]) @ layer["o"]
    return cache, x


def two_towers(w, image, text):
    return jnp.sum(mlp(w["image"], image) * mlp(w["text"], text), -1)


def embed_step(w, tokens):
    def loss(w):
        x = w["table"][tokens[:, :-1]]
        logits = jax.nn.log_softmax(jnp.tanh(x @ w["in"]) @ w["out"])
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()

    value, gradient = jax.value_and_grad(loss)(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradient), value


EMBED = {"table": spec(64, 16), "in": spec(16, 24), "out": spec(24, 64)}


def messages_step(w, nodes, senders, receivers, y):
    """A step on a graph: nodes send along edges, so that half of them is another graph."""

    def loss(w):
        x = nodes
        for layer in w:
            sent = jnp.tanh(x[senders] @ layer["edge"])
            x = x + jax.ops.segment_sum(sent, receivers, len(nodes)) @ layer["node"]
        return ((x.sum(-1) - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradient), value


def drawn_step(w, data, labels, places):
    """A step on rows that are drawn from all data: these are the batch."""
    return mlp_step(w, data[places], labels[places])


INT = np.int32
# Function, arguments at a batch, and the axes of the batch.
PROGRAMS = {
    "mlp": (mlp, lambda b: (MLP, spec(b, 48)), "x:0"),
    "mlp training": (mlp_step, lambda b: (MLP, spec(b, 48), spec(b, dtype=INT)), "x:0 labels:0"),
    "attention": (attention, lambda b: (ATTENTION, spec(b, 20, 32)), "x:0"),
    "attention training": (
        attention_step,
        lambda b: (ATTENTION, spec(b, 20, 32), spec(b, 20, 32)),
        "x:0 y:0",
    ),
    "batch norm training": (
        batch_norm_step,
        lambda b: (KERNELS, spec(b, 10, 10, 8), spec(b, 8)),
        "x:0 y:0",
    ),
    "recurrent": (recurrent, lambda b: (RECURRENT, spec(30, b, 12)), "xs:1"),
    "recurrent training": (
        recurrent_step,
        lambda b: (RECURRENT, spec(30, b, 12), spec(30, b, 10)),
        "xs:1 ys:1",
    ),
    "decoding with a cache": (
        decode,
        lambda b: (ATTENTION, spec(3, b, 50, 32), spec(b, 32)),
        "cache:1 x:0",
    ),
    "two inputs": (
        two_towers,
        lambda b: ({"image": MLP, "text": MLP}, spec(b, 48), spec(b, 48)),
        "image:0 text:0",
    ),
    "drawn training": (
        drawn_step,
        lambda b: (MLP, spec(300, 48), spec(300, dtype=INT), spec(b, dtype=INT)),
        "places:0",
    ),
    "embedding training": (embed_step, lambda b: (EMBED, spec(b, 21, dtype=INT)), "tokens:0"),
}
BATCH = 16
EQUAL = 8
"""Of `KERNELS`, the channels."""


def module_of(function, arguments):
    return lowtide.jit(function).lower(*arguments).module


def options() -> PlanOptions:
    return PlanOptions(search=SearchOptions(deadline=Deadline()))


def baseline(module, batch_axis: str | None = None) -> Baseline:
    return Baseline(module, plan(module, options()), options(), batch_axis)


def axes(module) -> str:
    return " ".join([axis_text(axis) for axis in batch_of(module).axes])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_batch_is_found(name: str) -> None:
    function, arguments, expected = PROGRAMS[name]
    assert axes(module_of(function, arguments(BATCH))) == expected


def test_a_batch_as_large_as_another_dimension_is_told_from_it() -> None:
    function, arguments, expected = PROGRAMS["batch norm training"]
    assert axes(module_of(function, arguments(EQUAL))) == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_half_the_batch_takes_what_the_program_written_so_takes(name: str) -> None:
    function, arguments, _ = PROGRAMS[name]
    (change,) = batch_changes(baseline(module_of(function, arguments(BATCH))))
    found = change.plan(baseline(module_of(function, arguments(BATCH)))).report
    written = plan(module_of(function, arguments(BATCH // 2)), options()).report
    assert found.total_bytes == pytest.approx(written.total_bytes, rel=0.02)
    assert found.argument_bytes == written.argument_bytes


# -- where it is not sure --------------------------------------------------------------------------


def product(w, x):
    return x @ w


def test_of_one_product_either_side_may_be_the_batch() -> None:
    base = baseline(module_of(product, (spec(16, 8), spec(4, 16))))
    assert batch_changes(base) == []
    question = batch_question(base)
    assert "w:1 or x:0" in question and "--batch ARGUMENT:AXIS" in question


def test_nodes_of_a_graph_are_no_batch() -> None:
    layers = [{"edge": spec(24, 40), "node": spec(40, 24)} for _ in range(3)]
    edges = [spec(96, dtype=INT)] * 2
    module = module_of(messages_step, (layers, spec(32, 24), *edges, spec(32)))
    base = baseline(module)
    assert batch_changes(base) == []
    assert "--batch ARGUMENT:AXIS" in batch_question(base)


def test_the_user_says_which() -> None:
    module = module_of(product, (spec(16, 8), spec(4, 16)))
    (change,) = batch_changes(baseline(module, "x:0"))
    assert change.code == "for part in jnp.split(x, 2): ...  # batches of 2"
    assert batch_question(baseline(module, "x:0")) == ""
    report = lowtide.explain(module, what_if="batch:1/2", batch_axis="x:0")
    assert report.argument_bytes == 4 * (16 * 8 + 2 * 16)


def test_a_program_of_one_example_has_no_batch() -> None:
    module = module_of(mlp, (MLP, spec(1, 48)))
    base = baseline(module)
    assert batch_changes(base) == []
    assert "No dimension of the arguments is sure to be the batch" in batch_question(base)
    found = lowtide.explain(module, what_if=True)
    assert found.what_if is not None and found.what_if.question == batch_question(base)
    assert "--batch ARGUMENT:AXIS" in str(found)
    assert json.loads(json.dumps(found.to_json()))["what_if"]["question"]


def test_a_batch_that_there_is_not_is_refused_before_anything_is_planned() -> None:
    module = module_of(product, (spec(16, 8), spec(4, 16)))
    with pytest.raises(LowtideError, match="no argument 'y'"):
        lowtide.explain(module, what_if=True, batch_axis="y:0")
    with pytest.raises(ValueError, match="batch_axis is for what_if"):
        lowtide.explain(module, batch_axis="x:0")


def test_several_arguments_are_split_together() -> None:
    function, arguments, _ = PROGRAMS["mlp training"]
    (change,) = batch_changes(baseline(module_of(function, arguments(BATCH))))
    assert change.code.startswith(
        "for part in zip(*[jnp.split(x, 2) for x in (labels, x)]): ...  # batches of 8"
    )
    function, arguments, _ = PROGRAMS["recurrent"]
    (change,) = batch_changes(baseline(module_of(function, arguments(BATCH))))
    assert change.code.startswith("for part in jnp.split(xs, 2, axis=1): ...")
    function, arguments, _ = PROGRAMS["decoding with a cache"]
    (change,) = batch_changes(baseline(module_of(function, arguments(BATCH))))
    assert change.code.startswith("two halves of x along axis 0 and cache along axis 1")
