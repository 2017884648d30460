"""Tensors have the numbers that the package onnx reads, however they are stored."""

import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, numpy_helper  # noqa: E402

from lowtide.frontend.graphs.dtypes import ONNX  # noqa: E402
from lowtide.frontend.graphs.graph import GraphError  # noqa: E402
from lowtide.frontend.onnx.messages import ATTRIBUTE_TYPES, TYPE_NAMES, parsed  # noqa: E402
from lowtide.frontend.onnx.model import load_model  # noqa: E402
from lowtide.frontend.onnx.tensors import TensorSource, array_of  # noqa: E402
from lowtide.frontend.onnx.wire import LONG_BYTES  # noqa: E402
from lowtide.ir.errors import InputError  # noqa: E402
from lowtide.ir.literal import DTYPES  # noqa: E402


def _read(tensor):
    """The value of a tensor as it comes out of a model's bytes."""
    whole = onnx.ModelProto()
    whole.graph.initializer.append(tensor)
    return array_of(parsed(whole.SerializeToString()).graph.initializer[0], TensorSource())


def _same(tensor):
    found, want = _read(tensor), numpy_helper.to_array(tensor)
    assert found.dtype == want.dtype and found.shape == want.shape
    assert found.tobytes() == want.tobytes()
    assert found.dtype is DTYPES[ONNX[tensor.data_type]]  # Else native code refuses an argument.


@pytest.mark.parametrize("number", ONNX)
def test_numbers_in_bytes(number):
    wide = onnx.helper.tensor_dtype_to_np_dtype(number).itemsize
    bits = ONNX[number].bits
    nbytes = 6 * wide if bits >= 8 else (6 * bits + 7) // 8
    raw = np.random.default_rng(number).integers(0, 2, nbytes, np.uint8).tobytes()
    _same(TensorProto(data_type=number, dims=[2, 3], raw_data=raw))
    _same(TensorProto(data_type=number, dims=[0, 3], raw_data=b""))


@pytest.mark.parametrize("number", ONNX)
def test_numbers_in_fields(number):
    tensor = TensorProto(data_type=number, dims=[2, 3])
    field = onnx.helper.tensor_dtype_to_field(number)
    count = 12 if number in (TensorProto.COMPLEX64, TensorProto.COMPLEX128) else 6
    getattr(tensor, field).extend([x % 2 for x in range(count)])
    if ONNX[number].bits < 8:
        packed = {2: 2, 4: 3}.get(ONNX[number].bits, 6)
        del tensor.int32_data[packed:]
    _same(tensor)


@pytest.mark.parametrize("number", ONNX)
def test_long_data_that_stays_in_the_file(number):
    bits = ONNX[number].bits
    count = 8 * (8 * LONG_BYTES // min(bits, 8) // 8 + 1)
    raw = np.random.default_rng(number).integers(0, 2, count * bits // 8, np.uint8).tobytes()
    tensor = TensorProto(name="w", data_type=number, dims=[count], raw_data=raw)
    found = load_model(_model(tensor)).initializers["w"]
    assert found.tobytes() == numpy_helper.to_array(tensor).tobytes()


def _model(tensor, *, operator="Identity"):
    """The bytes of a model with a tensor."""
    nodes = [onnx.helper.make_node(operator, ["w"], ["y"])]
    value = onnx.helper.make_tensor_value_info("y", tensor.data_type, tensor.dims)
    graph = onnx.helper.make_graph(nodes, "g", [], [value], [tensor])
    opsets = [onnx.helper.make_opsetid("", 20)]
    return onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString()


@pytest.mark.parametrize("number", [x for x in ONNX if ONNX[x].bits >= 8])
def test_numbers_are_read_without_the_package(number, monkeypatch):
    field = onnx.helper.tensor_dtype_to_field(number)
    count = 12 if ONNX[number].is_complex else 6
    tensor = TensorProto(name="w", data_type=number, dims=[6])
    getattr(tensor, field).extend([x % 2 for x in range(count)])
    model, want = _model(tensor), numpy_helper.to_array(tensor)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert load_model(model).initializers["w"].tobytes() == want.tobytes()


def test_a_model_with_functions_needs_the_package(monkeypatch):
    model = _model(TensorProto(name="w", data_type=1, dims=[1], float_data=[1]), operator="Unknown")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"<bytes>: .* takes the package onnx: pip install"):
        load_model(model)


def test_a_message_that_is_no_model_is_an_error():
    with pytest.raises(InputError, match="expected a ModelProto of ONNX, found a GraphProto"):
        load_model(onnx.GraphProto())


def test_too_few_numbers_are_an_error():
    with pytest.raises(GraphError, match="cannot be read: it has 20 bytes, 24 are expected of f32"):
        _read(TensorProto(name="w", data_type=1, dims=[2, 3], raw_data=bytes(20)))
    with pytest.raises(GraphError, match="cannot be read"):
        _read(TensorProto(name="w", data_type=1, dims=[2, 3], float_data=[1.0]))


def test_types_have_the_names_and_numbers_of_the_schema():
    known = dict(TensorProto.DataType.items())
    assert [known.get(x, i) for i, x in enumerate(TYPE_NAMES)] == [*range(len(TYPE_NAMES))]
    assert set(known) <= set(TYPE_NAMES)
    kinds = dict(onnx.AttributeProto.AttributeType.items())
    assert kinds == {x: i for i, x in enumerate(ATTRIBUTE_TYPES)}
