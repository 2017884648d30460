"""Loops that set items of a list, as TensorFlow's converter writes them for recurrent layers."""

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, model_bytes
from tests.tflite.kernels import OPTIMIZED
from tests.tflite.test_operators import both

from lowtide.frontend.graphs.graph import GraphError
from lowtide.tflite import Interpreter

COUNT, WIDTH = 5, 3


def words(graph, values):
    return graph.constant(np.array(values, np.int32), "int32")


def vector(graph, number, rest, name):
    """The vector of a number and two constants, as operators make it."""
    if name == "PACK":
        others = [words(graph, x) for x in rest]
        return graph.op("PACK", [number, *others], (3,), {0: 3, 1: 0}, "int32")
    one = graph.op("RESHAPE", [number, words(graph, [1])], (1,), None, "int32")
    return graph.op("CONCATENATION", [one, words(graph, rest)], (3,), {0: 0}, "int32")


def body_of(step, name, activation):
    """Sets item i to itself and i; the rest begins `step` items behind i."""
    body = Graph()
    i, x = body.given((), "int32"), body.given((COUNT, 1, WIDTH))
    following = body.op("ADD", [i, words(body, 1)], (), {0: 0}, "int32")
    rest = following
    if step != 1:
        rest = body.op("ADD", [i, words(body, step)], (), {0: 0}, "int32")
    real = body.op("CAST", [i], (), {0: 2, 1: 0})
    held = body.op("GATHER", [x, i], (1, WIDTH), {0: 0})
    item = body.op("ADD", [held, real], (1, WIDTH), {0: 0})
    item = body.op("RESHAPE", [item, words(body, [1, 1, WIDTH])], (1, 1, WIDTH))
    zeros, whole = words(body, [0, 0, 0]), words(body, [-1, -1, -1])
    before = body.op("SLICE", [x, zeros, vector(body, i, [-1, -1], name)], (1, 1, WIDTH))
    after = body.op("SLICE", [x, vector(body, rest, [0, 0], name), whole], (1, 1, WIDTH))
    body.signatures |= dict.fromkeys((before, after), (-1, 1, WIDTH))
    parts, options = [before, item, after], {0: 0, 1: activation}
    made = body.op("CONCATENATION", parts, (COUNT, 1, WIDTH), options)
    body.outputs = [following, made]
    return body


def looping(step=1, name="CONCATENATION", activation=0):
    graph, test = Graph(), Graph()
    x = graph.given((COUNT, 1, WIDTH))
    made = [graph.tensor((), "int32"), graph.tensor((COUNT, 1, WIDTH))]
    graph.ops("WHILE", [words(graph, 0), x], made, {0: 1, 1: 2})
    graph.outputs = [made[1]]
    i, _ = test.given((), "int32"), test.given((COUNT, 1, WIDTH))
    test.outputs = [test.op("LESS", [i, words(test, COUNT)], (), dtype="bool")]
    return model_bytes(graph, test, body_of(step, name, activation))


@pytest.mark.parametrize("name", ["CONCATENATION", "PACK"])
def test_items_are_set(name):
    for ours, theirs in both(looping(name=name), OPTIMIZED):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("how", [{"step": 2}, {"activation": 1}])
def test_other_slices_of_unknown_length_are_refused(how):
    interpreter = Interpreter(model_content=looping(**how))
    with pytest.raises(GraphError, match="SLICE"):
        interpreter.allocate_tensors()
