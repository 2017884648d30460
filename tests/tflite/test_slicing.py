"""Parts of arrays at places that depend on an argument."""

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, model_bytes
from tests.tflite.kernels import OPTIMIZED
from tests.tflite.test_operators import both

from lowtide.frontend.graphs.graph import GraphError
from lowtide.tflite import Interpreter

X = np.arange(60, dtype=np.float32).reshape(4, 3, 5)


def words(graph, values):
    return graph.constant(np.array(values, np.int32), "int32")


def vector(graph, parts):
    """A vector of constants, and of an argument wherever a part is None."""
    place = graph.given((), "int32")
    known = [place if x is None else words(graph, x) for x in parts]
    return graph.op("PACK", known, (len(parts),), {0: len(parts), 1: 0}, "int32")


def sliced(begin, sizes, out):
    graph = Graph()
    x = graph.given(X.shape)
    inputs = [x, vector(graph, begin), words(graph, sizes)]
    graph.outputs = [graph.op("SLICE", inputs, out)]
    return model_bytes(graph)


def strided(begin, end, steps, out, masks):
    graph = Graph()
    x = graph.given(X.shape)
    inputs = [x, vector(graph, begin), words(graph, end), words(graph, steps)]
    graph.outputs = [graph.op("STRIDED_SLICE", inputs, out, masks)]
    return model_bytes(graph)


@pytest.mark.parametrize(
    "content",
    [sliced([None, 0, 0], [2, 2, 5], (2, 2, 5)), sliced([None, 1, 2], [2, -1, -1], (2, 2, 3))],
)
def test_slices_at_a_place_that_is_given(content):
    for ours, theirs in both(content, OPTIMIZED):
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_left_from_a_place_that_is_given_is_refused():
    interpreter = Interpreter(model_content=sliced([None, 0, 0], [-1, 3, 5], (1, 3, 5)))
    with pytest.raises(GraphError, match=r"input 1, .* has to be a constant"):
        interpreter.allocate_tensors()


PLACES = {
    "first": ([None], [0], [1], (3, 5), {4: 1}, lambda i: X[i]),
    "second, reversed": (
        [0, None, 4],
        [9, 0, 0],
        [2, 1, -1],
        (2, 4),
        {4: 2},
        lambda i: X[0:9:2, i, 4:0:-1],
    ),
    "behind all others": ([0, None], [0, 0], [1, 1], (4, 3), {2: 1, 4: 2}, lambda i: X[..., i]),
}


@pytest.mark.parametrize("place", [0, 1, 2, -1])
@pytest.mark.parametrize("name", PLACES)
def test_a_dimension_is_taken_away_at_a_place_that_is_given(name, place):
    *how, wanted = PLACES[name]
    interpreter = Interpreter(model_content=strided(*how))
    interpreter.allocate_tensors()
    first, second = [x["index"] for x in interpreter.get_input_details()]
    interpreter.set_tensor(first, X)
    interpreter.set_tensor(second, np.int32(place))
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_array_equal(found, wanted(place))


def test_parts_between_places_that_are_given_are_refused():
    content = strided([None, 0], [3, 2], [1, 1], (2, 2, 5), {})
    with pytest.raises(GraphError, match=r"input 1, .* has to be a constant"):
        Interpreter(model_content=content).allocate_tensors()
