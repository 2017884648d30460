"""Models from files: external data, names, sources, and files that are broken."""

import os
import random
from functools import partial

import numpy as np
import pytest
from tests.onnx.models import FLOAT, WEIGHTS, helper, model, numpy_helper, onnx, perceptron, tensor

from lowtide.evaluator import evaluate
from lowtide.frontend.files import read, read_input
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.onnx.model import load_model
from lowtide.frontend.onnx.module import read_module
from lowtide.frontend.onnx.wire import without_long_data
from lowtide.ir import InputError, LowtideError
from lowtide.ir.element_type import ElementType
from lowtide.verifier import verify


def with_external(folder, location, values, kind=None, length=None):
    """Write a model whose weights lie in a file; `kind` is their type where NumPy lacks it."""
    proto = model(
        [helper.make_node("Identity", ["w"], ["y"])], [], [tensor("y", FLOAT, None)], {"w": values}
    )
    weights = proto.graph.initializer[0]
    data = weights.raw_data
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    fields = {"location": location, "offset": "8", "length": str(length or len(data))}
    for key, value in fields.items():
        weights.external_data.add(key=key, value=value)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    (folder / "data.bin").write_bytes(b"\0" * 8 + data)
    return folder / "model.onnx"


@pytest.mark.parametrize("dtype", [np.float32, onnx.helper.tensor_dtype_to_np_dtype(22)])
def test_external_data_is_mapped(tmp_path, dtype):
    values = np.arange(-8, 7).astype(dtype)
    found = load_model(with_external(tmp_path, "data.bin", values)).initializers["w"]
    np.testing.assert_array_equal(found, values)
    assert found.dtype == values.dtype


def test_external_data_stays_beside_functions_that_are_put_in_place(tmp_path, monkeypatch):
    monkeypatch.chdir("/")  # The inliner's check would look for the data there.
    path = with_external(tmp_path, "data.bin", np.arange(6, dtype=np.float32))
    proto = onnx.load(path, load_external_data=False)
    proto.graph.node.append(helper.make_node("Twice", ["y"], ["z"], domain="own"))
    proto.graph.output[0].name = "z"
    twice = helper.make_node("Add", ["a", "a"], ["b"])
    opsets = [*proto.opset_import, helper.make_opsetid("own", 1)]
    proto.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], [twice], opsets[:1]))
    proto.opset_import.append(opsets[-1])
    path.write_bytes(proto.SerializeToString())
    (found,) = evaluate(read_module(path), [])
    np.testing.assert_array_equal(np.asarray(found), np.arange(6) * 2)


@pytest.mark.parametrize("location", ["../data.bin", "/etc/hostname", "", "a/../../data.bin"])
def test_external_data_outside_of_the_folder_is_refused(tmp_path, location):
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(GraphError, match="outside of the folder"):
        load_model(with_external(inner, location, np.zeros(2, np.float32)))


@pytest.mark.parametrize("location", ["a\0b", "\0", "circle", "circle/data.bin"])
def test_external_data_of_a_name_that_can_be_no_file_is_refused(tmp_path, location):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(GraphError) as raised:
        load_model(with_external(tmp_path, location, np.zeros(2, np.float32)))
    assert str(raised.value) == f"external tensor 'w' names {location!r}, which can be no file"


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = with_external(inner, "link.bin", np.zeros(2, np.float32))
    (tmp_path / "secret").write_bytes(b"0" * 16)
    (inner / "link.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(GraphError, match="outside of the folder"):
        load_model(path)


def test_external_data_of_another_length_is_refused(tmp_path):
    path = with_external(tmp_path, "data.bin", np.zeros(2, np.float32), length=4)
    with pytest.raises(GraphError, match="4 bytes at 8 are given, 8 needed"):
        load_model(path)


def test_a_model_is_a_module_for_given_sizes(tmp_path):
    path = tmp_path / "layer.onnx"
    path.write_bytes(perceptron().SerializeToString())
    module = read_input(path, sizes={"batch": 5}).module
    verify(module)
    assert module.entry.parameters[0].shape.dimensions == (5, 96)
    with pytest.raises(
        InputError, match=r"sizes of inputs are not known .*: give --dim batch=SIZE"
    ):
        read(path)
    with pytest.raises(InputError, match="no dimension is called 'batsh'; did you mean 'batch'"):
        read_input(path, sizes={"batsh": 5})


def test_instructions_have_the_node_and_the_line_of_the_exporter():
    proto = perceptron()
    trace = 'File "lib.py", line 3, in call\nFile "net.py", line 12, in forward\n  return relu(x)'
    proto.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    module = read_module(proto, {"batch": 2})
    found = {x.metadata.op_name: x.metadata for x in module.entry.instructions.values()}
    assert "/layer/MatMul" in found
    relu = found["/layer/Relu"]
    assert (relu.op_type, relu.source_file, relu.source_line) == ("Relu", "net.py", 12)


def test_functions_of_the_model_are_put_in_place():
    body = [helper.make_node("Add", ["a", "a"], ["b"]), helper.make_node("Relu", ["b"], ["c"])]
    imports = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "twice", ["a"], ["c"], body, imports)
    node = helper.make_node("twice", ["x"], ["y"], domain="own")
    proto = model(
        [node], [tensor("x", FLOAT, [2])], [tensor("y", FLOAT, [2])], functions=[function]
    )
    proto.opset_import.append(helper.make_opsetid("own", 1))
    assert "maximum" in str(read_module(proto))


def test_types_of_few_bits_are_read():
    values = np.array([-8, 7, 3], onnx.helper.tensor_dtype_to_np_dtype(22))
    proto = model([helper.make_node("Identity", ["w"], ["y"])], [], [tensor("y", 22, [3])])
    proto.graph.initializer.append(numpy_helper.from_array(values, "w"))
    assert load_model(proto).outputs[0].element_type is ElementType.S4


def changed(data, seed):
    """Bytes of a model, cut off or with some bits flipped."""
    chooser = random.Random(seed)
    if seed % 2:
        return data[: chooser.randrange(len(data))]
    found = bytearray(data)
    for _ in range(1 + seed % 7):
        found[chooser.randrange(min(len(found), 400))] ^= 1 << chooser.randrange(8)
    return bytes(found)


@pytest.mark.parametrize("seed", range(120))
def test_broken_models_give_one_error(seed):
    try:
        module = read_module(changed(perceptron().SerializeToString(), seed), {"batch": 2})
    except LowtideError as error:
        assert str(error)
    else:
        verify(module)


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, b"HloModule x\n", b"\x3a\xff\xff\x03a"])
def test_what_is_no_model_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="no ONNX model"):
        load_model(data)
    path = tmp_path / "broken.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"broken\.onnx.*no ONNX model"):
        load_model(path)


def test_long_data_is_read_from_where_it_lies(tmp_path):
    proto = perceptron()
    constant = numpy_helper.from_array(WEIGHTS + 1)
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=constant))
    proto.graph.node.append(helper.make_node("Identity", ["c"], ["z"]))
    path = tmp_path / "layer.onnx"
    path.write_bytes(proto.SerializeToString())
    light = without_long_data(path.read_bytes())
    assert len(light) < 2000
    for source in (path, path.read_bytes(), proto):
        found = load_model(source).initializers
        np.testing.assert_array_equal(found["w"], WEIGHTS)
        np.testing.assert_array_equal(found["c"], WEIGHTS + 1)


def test_long_lists_beside_long_data_are_kept(tmp_path):
    """Lists are stepped over by runs: of numbers of any length, and of short and long texts."""
    values = [1, 300, -5, 1 << 40] * 500
    texts = [b"LEAF", b"", b"BRANCH_LEQ", b"x" * 63, b"y" * 64, b"z" * 200] * 100
    proto = perceptron()
    node = helper.make_node("Identity", ["x"], ["unused"], name="lists")
    node.attribute.append(helper.make_attribute("numbers", values))
    node.attribute.append(helper.make_attribute("reals", [0.5, -1e30] * 700))
    node.attribute.append(helper.make_attribute("texts", texts))
    node.attribute.append(helper.make_attribute("table", numpy_helper.from_array(WEIGHTS)))
    proto.graph.node.insert(0, node)
    light = onnx.ModelProto()
    light.ParseFromString(without_long_data(proto.SerializeToString()))
    assert len(light.SerializeToString()) < len(proto.SerializeToString()) - WEIGHTS.nbytes
    for before, after in zip(node.attribute[:3], light.graph.node[0].attribute[:3], strict=True):
        assert before == after


def test_long_data_is_read_where_the_file_says_that_it_is_in_the_message(tmp_path):
    proto = perceptron()
    proto.graph.initializer[0].data_location = onnx.TensorProto.DEFAULT
    path = tmp_path / "layer.onnx"
    path.write_bytes(proto.SerializeToString())
    np.testing.assert_array_equal(load_model(path).initializers["w"], WEIGHTS)


def test_data_that_lies_outside_of_the_model_is_refused():
    proto = onnx.ModelProto()
    proto.ParseFromString(without_long_data(perceptron().SerializeToString()))
    with pytest.raises(GraphError, match="data of tensor 'w' lies outside of the model"):
        load_model(proto.SerializeToString())


def test_external_data_that_is_no_file_is_refused(tmp_path):
    path = with_external(tmp_path, "pipe", np.zeros(2, np.float32))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GraphError, match="there is no plain file of this name in /"):
        load_model(path)


def test_a_size_of_minus_one_is_free():
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", FLOAT, [-1, 4])],
        [tensor("y", FLOAT, None)],
    )
    assert load_model(proto).inputs[0].sizes == (None, 4)
    assert read_module(proto, shapes={"x": (3, 4)}).entry.parameters[0].shape.dimensions == (3, 4)


def two_inputs():
    """A model with a free dimension that has a name, and one that has none."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["u"], ["v"])]
    inputs = [tensor("x", FLOAT, ["batch", 4]), tensor("u", FLOAT, [None, 2])]
    return model(nodes, inputs, [tensor("y", FLOAT, None), tensor("v", FLOAT, None)])


@pytest.mark.parametrize(
    ("sizes", "shapes", "message"),
    [
        ({}, {}, r"x: \[batch, 4\], u: \[\?, 2\].*--dim batch=SIZE --shape u=\?,2"),
        ({"batch": 1}, {}, r"\(u: \[\?, 2\]\): give --shape u=\?,2$"),
        ({}, {"w": (1, 2)}, "no input is called 'w'"),
        ({"batch": 1}, {"u": (1, 3)}, r"u' is of shape \[\?, 2\], which \[1, 3\] does not fit"),
        ({"batch": 1}, {"u": (1, 2, 1)}, "does not fit"),
    ],
)
def test_all_missing_sizes_are_named_at_once(sizes, shapes, message):
    with pytest.raises(InputError, match=message):
        read_module(two_inputs(), sizes, shapes)


def test_all_missing_operators_are_named_at_once():
    nodes = [helper.make_node("Nope", ["x"], ["a"]), helper.make_node("Neither", ["a"], ["y"])]
    proto = model(nodes, [tensor("x", FLOAT, [1])], [tensor("y", FLOAT, [1])])
    with pytest.raises(LowtideError, match=r"'Nope' .*'Neither'"):
        read_module(proto)


def test_giant_sizes_are_refused_before_memory_is_taken():
    proto = perceptron()
    proto.graph.initializer[0].dims[0] = 1 << 60
    with pytest.raises(LowtideError):
        read_module(proto, {"batch": 1 << 40})


def test_a_function_that_is_called_wrongly_is_refused():
    node = helper.make_node("SoftmaxCrossEntropyLoss", [], ["y"])
    with pytest.raises(LowtideError, match="cannot be put in place"):
        read_module(model([node], [], [tensor("y", FLOAT, [])]))


def test_functions_that_would_become_many_nodes_are_refused():
    """Each of 40 calls the next one twice."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    nodes = [helper.make_node("Relu", ["a"], ["b"])]
    functions = []
    for number in range(40):
        functions.append(helper.make_function("d", f"F{number}", ["a"], ["b"], nodes, opsets))
        call = partial(helper.make_node, f"F{number}", domain="d")
        nodes = [call(["a"], ["t"]), call(["t"], ["b"])]
    node = helper.make_node("F39", ["x"], ["y"], domain="d")
    proto = model([node], [tensor("x", FLOAT, [1])], [tensor("y", FLOAT, [1])])
    proto.functions.extend(functions)
    proto.opset_import.extend(opsets[1:])
    with pytest.raises(LowtideError, match="more than 1,048,576 nodes"):
        read_module(proto)


def test_functions_beside_long_initializers_keep_their_values():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MeanVarianceNormalization", ["a"], ["y"], axes=[0]),
    ]
    proto = perceptron()
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    found = load_model(proto)
    assert [x.name for x in found.inputs] == ["x"]
    np.testing.assert_array_equal(found.initializers["w"], WEIGHTS)
    assert len(proto.graph.node) == len(nodes)  # The model that is given stays as it is.
    verify(read_module(proto, {"batch": 2}))


def test_long_ranges_take_no_memory_before_they_run():
    values = {"start": 0, "limit": 1 << 40, "delta": 1}
    nodes = [helper.make_node("Range", list(values), ["y"])]
    constants = {x: np.array(y, np.int64) for x, y in values.items()}
    proto = model(nodes, [], [tensor("y", 7, [None])], constants)
    assert read_module(proto).entry.root.shape.tuple_shapes[0].dimensions == (1 << 40,)


def with_function(body, version, sizes, opset=18):
    """A model with a call of a function "own.f" whose operators are those of another version."""
    imports = [helper.make_opsetid("", version)]
    function = helper.make_function("own", "f", ["a"], ["b"], body, imports)
    proto = model(
        [helper.make_node("f", ["x"], ["y"], domain="own")],
        [tensor("x", FLOAT, [2, 3])],
        [tensor("y", FLOAT, sizes)],
        opset=opset,
        functions=[function],
    )
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def functions_of_other_versions():
    one = helper.make_node("Exp", ["a"], ["t"])
    same = [one, helper.make_node("Neg", ["t"], ["b"])]
    other = [one, helper.make_node("ReduceMax", ["t"], ["b"], axes=[1], keepdims=0)]
    branch = helper.make_graph(
        [helper.make_node("Neg", ["t"], ["r"])], "g", [], [tensor("r", FLOAT, [2, 3])]
    )
    truth = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("v", 9, [], [True]))
    chosen = helper.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch)
    return {
        "same": (same, 16),
        "later": (same, 20),
        "changed": (other, 16),
        "within": ([one, truth, chosen], 16),
    }


@pytest.mark.parametrize("name", ["same", "later", "within"])
def test_functions_of_other_versions_of_operators_are_put_in_place(name):
    body, version = functions_of_other_versions()[name]
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    (found,) = evaluate(read_module(with_function(body, version, x.shape)), [x])
    np.testing.assert_allclose(found, -np.exp(x), rtol=1e-6)


def test_a_function_whose_operators_are_others_in_the_model_is_refused():
    body, version = functions_of_other_versions()["changed"]
    with pytest.raises(GraphError, match=r"ReduceMax.*imports version 16 whereas model imports"):
        read_module(with_function(body, version, [2]))


@pytest.mark.parametrize(
    ("op", "sizes", "places", "found"),
    [
        ("Gather", [0, 3], [0], [0, 3]),
        ("Gather", [2, 0], [2], [2, 0]),
        ("GatherND", [0, 3], [0, 1], [0, 3]),
        ("GatherElements", [0, 3], [0, 3], [0, 3]),
    ],
)
@pytest.mark.parametrize("kind", [FLOAT, 9])
def test_of_nothing_nothing_is_gathered(op, sizes, places, found, kind):
    proto = model(
        [helper.make_node(op, ["x", "i"], ["y"])],
        [tensor("x", kind, sizes), tensor("i", 7, places)],
        [tensor("y", kind, None)],
    )
    assert read_module(proto).entry.root.shape.tuple_shapes[0].dimensions == tuple(found)
