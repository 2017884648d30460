"""Files that broke the law of readers once: each is one error of lowtide's now, and at once."""

import importlib
import os
import random

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, model_bytes

import lowtide
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.graphs.shared.broadcasting import joined
from lowtide.frontend.hlo_proto import read_hlo_proto, write_hlo_module_proto
from lowtide.frontend.hlo_proto.messages import new_message
from lowtide.frontend.tensorflow.messages import new_message as tensorflow_message
from lowtide.frontend.tensorflow.tensors import array_of
from lowtide.ir import HloProtoError, HloTextError, InputError, LowtideError

onnx = pytest.importorskip("onnx")
type_text = importlib.import_module("lowtide.frontend.onnx.model").type_text
helper, numpy_helper = onnx.helper, onnx.numpy_helper


def saved(folder, initializers=(), sparse=()):
    """Write a model that returns its first value, and return its path."""
    names = [x.name for x in initializers] + [x.values.name for x in sparse]
    result = helper.make_tensor_value_info("y", 1, None)
    node = helper.make_node("Identity", names[:1], ["y"])
    graph = helper.make_graph([node], "g", [], [result], initializers)
    graph.sparse_initializer.extend(sparse)
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
    return path


def apart(location, sizes=(4,)):
    """Return a tensor whose data lie in another file."""
    tensor = onnx.TensorProto(name="w", data_type=1, dims=sizes, data_location=1)
    tensor.external_data.add(key="location", value=location)
    return tensor


def refused(path, words):
    with pytest.raises(LowtideError, match=words):
        lowtide.read(path)


def test_external_data_in_a_pipe(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(saved(tmp_path, [apart("pipe")]), "'w' cannot be read from 'pipe'.*no plain file")


@pytest.mark.parametrize("location", ["da\0ta", "x" * 5000, "missing", "sub/../.."])
def test_external_data_in_no_file(tmp_path, location) -> None:
    refused(saved(tmp_path, [apart(location)]), "external tensor 'w'")


def test_external_data_behind_links_in_a_circle(tmp_path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    refused(saved(tmp_path, [apart("a")]), "external tensor 'w'")


@pytest.mark.parametrize("word", [b"location", b"Identity", b"the_location_of_w"])
def test_a_string_that_is_not_utf8(tmp_path, word) -> None:
    path = saved(tmp_path, [apart("the_location_of_w")])
    data = path.read_bytes()
    assert word in data
    path.write_bytes(data.replace(word, word[:-1] + b"\xff"))
    refused(path, r"graph\..*: the string is not UTF-8")


@pytest.mark.parametrize("sizes", [[2**40], [2**31, 2**31], [-5], [2**20, 2**20, 0, 3]])
def test_a_sparse_tensor_of_any_size(tmp_path, sizes) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.zeros(1, np.int64))
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=sizes)
    refused(saved(tmp_path, sparse=[sparse]), "sparse tensor 'w'")


@pytest.mark.parametrize(
    ("values", "indices"),
    [
        (np.ones(1, np.float32), np.zeros(1, np.float32)),
        (np.ones(1, np.float32), np.zeros(2, np.int64)),
        (np.ones(1, np.float32), np.zeros((1, 3), np.int64)),
        (np.ones(1, np.float32), np.zeros((1, 1, 2), np.int64)),
        (np.ones((), np.float32), np.zeros(1, np.int64)),
        (np.ones((1, 1), np.float32), np.zeros(1, np.int64)),
        (np.ones(1, np.float32), np.array(["a"], object)),
        (np.ones(1, np.float32), np.zeros(1, bool)),
    ],
)
def test_a_sparse_tensor_with_indices_of_any_kind(tmp_path, values, indices) -> None:
    given = numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices)
    sparse = onnx.SparseTensorProto(values=given[0], indices=given[1], dims=[2, 3])
    refused(saved(tmp_path, sparse=[sparse]), r"sparse tensor 'w' has values.*\[n, 2\]")


@pytest.mark.parametrize("name", ["model", "model.pb", "model.bin", "model.hlo.pb"])
def test_a_model_of_onnx_under_another_name(tmp_path, name) -> None:
    value = numpy_helper.from_array(np.ones(2, np.float32), "w")
    path = saved(tmp_path, [value]).rename(tmp_path / name)
    with pytest.raises(InputError, match=r"this is an ONNX model.*end in \.onnx"):
        lowtide.read(path)


@pytest.mark.parametrize("seed", range(20))
def test_a_saved_model(tmp_path, seed) -> None:
    graph = random.Random(seed).randbytes(200)
    path = tmp_path / "saved_model.pb"
    path.write_bytes(b"\x08\x01\x12" + b"\xc8\x01" + graph)
    with pytest.raises(InputError, match=r"graph of a SavedModel of TensorFlow.*folder"):
        lowtide.read(path)


KINDS = [x.name for x in onnx.TypeProto.DESCRIPTOR.oneofs_by_name["value"].fields]


@pytest.mark.parametrize("inner", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_each_kind_of_type_that_onnx_has(tmp_path, kind, inner) -> None:
    """Types within types too, with nothing said of their elements."""
    path = saved(tmp_path, [numpy_helper.from_array(np.ones(2, np.float32), "w")])
    model = onnx.load(path)
    value = model.graph.input.add(name="x")
    getattr(value.type, kind).SetInParent()
    within = {"sequence_type": "elem_type", "optional_type": "elem_type", "map_type": "value_type"}
    if kind in within:
        getattr(getattr(getattr(value.type, kind), within[kind]), inner).SetInParent()
    text = type_text(value.type)
    assert text.startswith("seq(" if kind == "sequence_type" else kind.removesuffix("_type") + "(")
    path.write_bytes(model.SerializeToString())
    try:
        lowtide.read(path)
    except LowtideError as error:
        assert "x" in str(error).split(": ", 1)[1]


@pytest.mark.parametrize("rank", [31, 40, 70])
def test_arrays_of_more_dimensions_than_numpy_has(tmp_path, rank) -> None:
    """Sizes broadcast whatever their number; what cannot be computed is one error."""
    inputs = [helper.make_tensor_value_info(x, 1, [1] * n) for x, n in (("x", rank), ("y", 2))]
    result = helper.make_tensor_value_info("z", 1, None)
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "g", inputs, [result])
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
    module = lowtide.read(path)
    lowtide.verify(module)
    assert module.entry.root.shape.leaf_nbytes == 4


@pytest.mark.parametrize("seed", range(60))
def test_sizes_broadcast_as_those_of_numpy(seed) -> None:
    rng = random.Random(seed)
    sizes = [[rng.choice((0, 1, 1, 2, 3)) for _ in range(rng.randrange(5))] for _ in range(3)]
    sizes = sizes[: rng.randrange(1, 4)]
    try:
        wanted = np.broadcast_shapes(*map(tuple, sizes))
    except ValueError:
        with pytest.raises(LowtideError, match="do not broadcast together"):
            joined(sizes)
        return
    assert joined(sizes) == wanted


NO_ARRAYS = [[0, 2**62], [2**62, 0], [2**40, 0, 2**40]]
"""Sizes of arrays without elements that NumPy cannot make."""


@pytest.mark.parametrize("sizes", NO_ARRAYS)
@pytest.mark.parametrize("kind", ["f32", "s4", "pred", "c128"])
def test_sizes_of_0_beside_large_ones_in_hlo(sizes, kind) -> None:
    wide = [4, *sizes, 4]
    text = f"HloModule m\nENTRY e {{ ROOT c = {kind}[SIZES] parameter(0) }}"
    with pytest.raises(HloTextError, match=r"takes more than 2\^63 bytes"):
        lowtide.parse_hlo(text.replace("SIZES", ",".join(map(str, wide))))
    proto = new_message("HloModuleProto")
    proto.ParseFromString(
        write_hlo_module_proto(lowtide.parse_hlo(text.replace("SIZES", "1,1,1,1")))
    )
    for computation in proto.computations:
        del computation.instructions[0].shape.dimensions[:]
        computation.instructions[0].shape.dimensions.extend(wide)
    with pytest.raises(HloProtoError, match=r"2\*\*63|dimension"):
        read_hlo_proto(proto.SerializeToString())


@pytest.mark.parametrize("sizes", NO_ARRAYS)
def test_sizes_of_0_beside_large_ones_in_onnx(tmp_path, sizes) -> None:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=sizes, raw_data=b"")
    refused(saved(tmp_path, [tensor]), "tensor 'w' of sizes")


@pytest.mark.parametrize("data", [{}, {"string_val": [b"x"]}, {"float_val": [1.0]}])
@pytest.mark.parametrize("kind", [1, 7])
@pytest.mark.parametrize("sizes", [*NO_ARRAYS, [2**40], [2**62, 4]])
def test_tensors_of_tensorflow_of_any_size(sizes, kind, data) -> None:
    tensor = tensorflow_message("TensorProto")
    tensor.dtype = kind
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    for name, values in data.items():
        getattr(tensor, name).extend(values)
    with pytest.raises(GraphError, match="node 'n'"):
        array_of(tensor, "n")


@pytest.mark.parametrize("kind", ["float32", "int8", "int64"])
@pytest.mark.parametrize("sizes", [[0, 2**31 - 1, 2**31 - 1, 4], [2**31 - 1, 2**31 - 1, 0, 7]])
def test_constants_of_tflite_of_any_size(tmp_path, sizes, kind) -> None:
    path = tmp_path / "model.tflite"
    graph = Graph()
    graph.op("NEG", [graph.tensor(sizes, kind)], sizes, dtype=kind)
    path.write_bytes(model_bytes(graph))
    refused(path, "sizes")
