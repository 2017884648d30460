"""Subgraphs, state between calls, sparse constants, sizes that change, and custom operators."""

import struct

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, Text, model_bytes
from tests.tflite.kernels import OPTIMIZED, calls, litert_results
from tests.tflite.operators import drawn

from lowtide.frontend.tflite.compiling import compile_tflite
from lowtide.frontend.tflite.flexbuffer import scalars, vectors
from lowtide.frontend.tflite.model import read_tflite
from lowtide.ir.errors import InputError
from lowtide.tflite import Interpreter


def handle(graph, name):
    made = graph.tensor((), "resource")
    graph.ops("VAR_HANDLE", [], [made], {1: Text(name)})
    return made


def counting():
    """A sum over all calls, which a subgraph that runs once begins with 10."""
    graph, once = Graph(), Graph()
    graph.ops("CALL_ONCE", [], [], {0: 1})
    x, variable = graph.given((2, 3)), handle(graph, "total")
    before = graph.op("READ_VARIABLE", [variable], (2, 3))
    after = graph.op("ADD", [before, x], (2, 3), {0: 0})
    graph.ops("ASSIGN_VARIABLE", [variable, after], [])
    graph.outputs = [after]
    start = once.constant(np.full((2, 3), 10, np.float32))
    once.ops("ASSIGN_VARIABLE", [handle(once, "total"), start], [])
    return model_bytes(graph, once)


def choosing():
    """Twice x or x + y, by a condition; the first branch reads a constant of its own."""
    graph, doubled, added = Graph(), Graph(), Graph()
    condition = graph.given((), "bool")
    x, y = graph.given((3,)), graph.given((3,))
    graph.outputs = [graph.op("IF", [condition, x, y], (3,), {0: 1, 1: 2})]
    a, _ = doubled.given((3,)), doubled.given((3,))
    two = doubled.constant(np.full(3, 2, np.float32))
    doubled.outputs = [doubled.op("MUL", [a, two], (3,), {0: 0})]
    given = [added.given((3,)), added.given((3,))]
    added.outputs = [added.op("ADD", given, (3,), {0: 0})]
    return model_bytes(graph, doubled, added)


def looping():
    """x doubled while a counter is below 5, and a variable that counts the steps of all calls."""
    graph, test, body = Graph(), Graph(), Graph()
    start, x = graph.given((), "int32"), graph.given((2,))
    variable = handle(graph, "steps")
    made = [graph.tensor((), "int32"), graph.tensor((2,)), graph.tensor((), "resource")]
    graph.ops("WHILE", [start, x, variable], made, {0: 1, 1: 2})
    steps = graph.op("READ_VARIABLE", [variable], (), dtype="int32")
    graph.outputs = [made[1], steps]
    for inner in (test, body):
        inner.inputs = [inner.tensor((), "int32"), inner.tensor((2,)), inner.tensor((), "resource")]
    five = test.constant(np.int32(5), "int32")
    test.outputs = [test.op("LESS", [0, five], (), dtype="bool")]
    one = body.constant(np.int32(1), "int32")
    following = body.op("ADD", [0, one], (), {0: 0}, "int32")
    twice = body.op("ADD", [1, 1], (2,), {0: 0})
    before = body.op("READ_VARIABLE", [2], (), dtype="int32")
    after = body.op("ADD", [before, one], (), {0: 0}, "int32")
    body.ops("ASSIGN_VARIABLE", [2, after], [])
    body.outputs = [following, twice, 2]
    return model_bytes(graph, test, body)


def ours(content, *steps):
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    return interpreter, calls(interpreter, steps)


def test_variables_last_from_call_to_call():
    x = drawn(2, 3)
    interpreter, found = ours(counting(), [x], [x], [2 * x])
    np.testing.assert_allclose([y[0] for y in found], [10 + x, 10 + 2 * x, 10 + 4 * x], rtol=1e-6)
    interpreter.reset_all_variables()
    interpreter.invoke()
    (entry,) = interpreter.get_output_details()
    np.testing.assert_allclose(interpreter.get_tensor(entry["index"]), 10 + 2 * x, rtol=1e-6)


def test_variables_beside_litert():
    x = drawn(2, 3)
    steps = [[x], [x], [3 * x]]
    theirs = litert_results(counting(), [OPTIMIZED], steps)
    np.testing.assert_array_equal(ours(counting(), *steps)[1], theirs)


def test_state_is_a_parameter_that_its_result_may_overwrite():
    module = compile_tflite(read_tflite(counting())).module
    assert len(module.entry.parameters) == len(module.entry.root.shape.tuple_shapes) == 2
    (alias,) = module.input_output_aliases
    assert (alias.output_index, alias.parameter) == ((1,), 1)


def test_branches():
    x, y = drawn(3), drawn(3, seed=4)
    _, found = ours(choosing(), [np.bool_(True), x, y], [np.bool_(False), x, y])
    np.testing.assert_allclose([z[0] for z in found], [2 * x, x + y], rtol=1e-6)


def test_loops_and_what_they_assign():
    x = drawn(2)
    _, found = ours(looping(), [np.int32(2), x], [np.int32(4), x], [np.int32(9), x])
    np.testing.assert_allclose([y[0] for y in found], [8 * x, 2 * x, x], rtol=1e-6)
    assert [int(y[1]) for y in found] == [3, 4, 4]


def test_a_subgraph_that_calls_itself_is_refused():
    graph, inner = Graph(), Graph()
    for number, part in enumerate((graph, inner)):
        x = part.given((2,))
        part.outputs = [part.op("CALL", [x], (2,), {0: 1})]
        assert number < 2
    with pytest.raises(InputError, match="levels deep"):
        compile_tflite(read_tflite(model_bytes(graph, inner)))


@pytest.mark.parametrize(
    ("change", "message"),
    [({0: 7, 1: 2}, "subgraph 7 of 3"), ({0: 0, 1: 2}, "takes 3 inputs, not 2")],
)
def test_bad_calls_are_named(change, message):
    graph, *others = Graph(), Graph(), Graph()
    condition, x, y = graph.given((), "bool"), graph.given((3,)), graph.given((3,))
    graph.outputs = [graph.op("IF", [condition, x, y], (3,), change)]
    for part in others:
        part.outputs = [part.given((3,))]
        part.given((3,))
    with pytest.raises(InputError, match=message):
        compile_tflite(read_tflite(model_bytes(graph, *others)))


def test_reading_what_is_no_handle():
    graph = Graph()
    x = graph.given((2,))
    graph.outputs = [graph.op("READ_VARIABLE", [x], (2,))]
    with pytest.raises(InputError, match=r"operators\[0\] \(READ_VARIABLE\).*no handle"):
        compile_tflite(read_tflite(model_bytes(graph)))


def flattening():
    """What Keras writes for a Flatten: sizes that are reckoned from the operand's."""
    graph = Graph()
    x = graph.given((2, 3, 4))
    sizes = graph.op("SHAPE", [x], (3,), {0: 2}, "int32")
    zero, one = graph.constant([0], "int32"), graph.constant([1], "int32")
    steps = graph.constant([1], "int32")
    first = graph.op("STRIDED_SLICE", [sizes, zero, one, steps], (), {4: 1}, "int32")
    rest = graph.constant(np.int32(-1), "int32")
    packed = graph.op("PACK", [first, rest], (2,), {0: 2}, "int32")
    graph.outputs = [graph.op("RESHAPE", [x, packed], (2, 12))]
    return model_bytes(graph)


def test_sizes_are_reckoned_and_inputs_may_have_others():
    interpreter, (found,) = ours(flattening(), [drawn(2, 3, 4)])
    np.testing.assert_array_equal(found[0], drawn(2, 3, 4).reshape(2, 12))
    (entry,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(entry["index"], [5, 2, 3])
    with pytest.raises(InputError, match="allocate_tensors"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    x = drawn(5, 2, 3)
    assert calls(interpreter, [[x]])[0][0].tolist() == x.reshape(5, 6).tolist()
    assert interpreter.get_output_details()[0]["shape"].tolist() == [5, 6]
    with pytest.raises(InputError, match=r"takes \[2, 3, 4\], not \[2, 3, 9\]"):
        interpreter.resize_tensor_input(entry["index"], [2, 3, 9], strict=True)


# -- custom operators ------------------------------------------------------------------------------


def flexbuffer(values):
    """A map of FlexBuffers' form: integers, floats and lists of integers, 4 bytes each."""
    names = sorted(values)
    data, keys, places = bytearray(), [], {}
    for name in names:
        keys.append(len(data))
        data += name.encode() + b"\0"
    while len(data) % 4:
        data += b"\0"
    for name in names:
        if isinstance(values[name], list):
            data += struct.pack("<I", len(values[name]))
            places[name] = len(data)
            data += struct.pack(f"<{len(values[name])}i", *values[name])
    data += struct.pack("<I", len(names))
    vector = len(data)
    for at in keys:
        data += struct.pack("<I", len(data) - at)
    data += struct.pack("<III", len(data) - vector, 4, len(names))
    root, kinds = len(data), bytearray()
    for name in names:
        value = values[name]
        if isinstance(value, list):
            data += struct.pack("<I", len(data) - places[name])
            kinds.append(11 << 2 | 2)
        elif isinstance(value, float):
            data += struct.pack("<f", value)
            kinds.append(3 << 2 | 2)
        else:
            data += struct.pack("<i", value)
            kinds.append(1 << 2 | 2)
    data += kinds
    data += bytes([len(data) - root, 9 << 2 | 2, 1])
    return bytes(data)


def test_options_in_the_form_of_flexbuffers():
    values = {"a": 3, "scale": 0.5, "list": [4, 5, 600], "minus": -7}
    data = flexbuffer(values)
    assert scalars(data) == {"a": 3, "scale": 0.5, "minus": -7}
    assert vectors(data) == {"list": [4, 5, 600]}
    for bad in (b"", b"abc", data[:-1], bytes(len(data)), data[40:]):
        with pytest.raises(ValueError, match=r"options|map|vector|found|range|argument"):
            scalars(bad)


DETECTION = {
    "max_detections": 4,
    "max_classes_per_detection": 1,
    "num_classes": 3,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.4,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


BY_CLASS = DETECTION | {"use_regular_nms": 1, "detections_per_class": 3, "max_detections": 7}


def detector(values=DETECTION):
    graph = Graph()
    boxes, scores = graph.given((1, 12, 4)), graph.given((1, 12, 4))
    most = values["max_detections"]
    centers = np.concatenate([drawn(12, 2, low=0.2, high=0.8), drawn(12, 2, low=0.1, high=0.4)], 1)
    anchors = graph.constant(centers)
    made = [graph.tensor(x) for x in [(1, most, 4), (1, most), (1, most), (1,)]]
    options = flexbuffer(values)
    graph.ops("CUSTOM:TFLite_Detection_PostProcess", [boxes, scores, anchors], made, options)
    graph.outputs = made
    return model_bytes(graph)


@pytest.mark.parametrize("values", [DETECTION, BY_CLASS], ids=["fast", "by class"])
def test_the_end_of_a_detector_beside_litert(values):
    steps = [[drawn(1, 12, 4, seed=i), drawn(1, 12, 4, seed=20 + i, low=0.0)] for i in range(4)]
    theirs = litert_results(detector(values), [OPTIMIZED], steps)
    for found, wanted in zip(ours(detector(values), *steps)[1], theirs, strict=True):
        count = int(wanted[3][0])
        assert int(found[3][0]) == count > 0
        for x, y in zip(found[:3], wanted[:3], strict=True):
            np.testing.assert_allclose(x[:, :count], y[:, :count], rtol=1e-5, atol=1e-6)
            assert not x[:, count:].any()


def test_a_part_of_an_image_by_landmarks():
    """The matrix moves the corners of a part where landmarks lie; the part is the image there."""
    marks = np.array([[[2, 3, 0], [10, 3, 0], [2, 11, 0], [10, 11, 0]]], np.float32)
    options = {"left_rotation_idx": 0, "right_rotation_idx": 1, "output_height": 4}
    options |= {"output_width": 4, "scale_x": 1.0, "scale_y": 1.0, "subset_idxs": [0, 1, 2, 3]}
    graph = Graph()
    points, image = graph.given((1, 4, 3)), graph.given((1, 14, 14, 2))
    made = graph.tensor((1, 4, 4))
    graph.ops("CUSTOM:Landmarks2TransformMatrix", [points], [made], flexbuffer(options))
    part, moved = graph.tensor((1, 4, 4, 2)), graph.tensor((1, 4, 3))
    graph.ops("CUSTOM:TransformTensorBilinear", [image, made], [part], flexbuffer(options))
    graph.ops("CUSTOM:TransformLandmarks", [points, made], [moved], b"")
    graph.outputs = [made, part, moved]
    rows, columns = np.mgrid[0:14, 0:14].astype(np.float32)
    picture = np.stack([rows, columns], -1)[None]
    _, ((matrix, found, points_moved),) = ours(model_bytes(graph), [marks, picture])
    np.testing.assert_allclose(matrix[0, :2], [[2, 0, 0, 2], [0, 2, 0, 3]], atol=1e-5)
    at = np.arange(4) * 2 + 2.5
    np.testing.assert_allclose(found[0, 0, :, 1], at, atol=1e-5)
    np.testing.assert_allclose(found[0, :, 0, 0], at + 1, atol=1e-5)
    np.testing.assert_allclose(points_moved[0, :, 0], marks[0, :, 0] * 2 + 2, atol=1e-5)


def test_a_transposed_convolution_with_bias():
    """The custom operator is the built-in one with a bias, where no padding is."""
    x, weights, bias = drawn(1, 3, 4, 2), drawn(5, 2, 2, 2), drawn(5)
    graph = Graph()
    given, kept, extra = graph.given((1, 3, 4, 2)), graph.constant(weights), graph.constant(bias)
    made = graph.tensor((1, 6, 8, 5))
    options = struct.pack("<iii", 2, 2, 2)
    graph.ops("CUSTOM:Convolution2DTransposeBias", [given, kept, extra], [made], options)
    graph.outputs = [made]
    _, ((found,),) = ours(model_bytes(graph), [x])
    wanted = np.einsum("nhwi,oyxi->nhywxo", x, weights).reshape(1, 6, 8, 5) + bias
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
