"""Nodes on the host behind a program, or before one: maps, texts and sequences of its results."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from tests.onnx.models import FLOAT, INT64, helper, onnx, tensor
from tests.onnx.test_known import _own_cache, is_loaded, session  # noqa: F401

from lowtide.frontend.graphs.graph import GraphError, GraphNode
from lowtide.onnx.endings import EndingRun, can_end, read_endings, written_endings

STRING = onnx.TensorProto.STRING
LABELS = ["calm", "höher", "windy"]


def made(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, op, domain="ai.onnx.ml", **attributes)


def map_of(name):
    value = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    return helper.make_value_info(name, helper.make_sequence_type_proto(value))


def classifier():
    """The greatest score's label as text, the scores as maps, and in between a sequence of both."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["place"], axis=1, keepdims=0),
        ml("LabelEncoder", ["place"], ["label"], keys_int64s=[0, 1, 2], values_strings=LABELS),
        ml("ZipMap", ["scores"], ["map"], classlabels_strings=LABELS),
    ]
    outputs = [tensor("label", STRING, ["n"]), map_of("map"), tensor("place", INT64, ["n"])]
    return made(nodes, [tensor("x", FLOAT, ["n", 3])], outputs)


def scores(rows, seed):
    return np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)


def check(given, x):
    label, maps, place = given.run(None, {"x": x})
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert place.tolist() == x.argmax(1).tolist()
    assert label.tolist() == [LABELS[i] for i in place]
    assert [list(row) for row in maps] == [LABELS] * len(x)
    np.testing.assert_allclose([[*row.values()] for row in maps], wanted, rtol=1e-5)


def test_maps_and_texts_behind_a_program_follow_each_call():
    given = session(classifier())
    for seed in range(3):
        check(given, scores(4, seed))
    assert given._repeated is not None
    endings = {x.op for x in given._repeated.program.step.endings}
    assert endings == {"ai.onnx.ml.LabelEncoder", "ai.onnx.ml.ZipMap"}
    check(given, scores(2, 5))
    check(given, scores(4, 6))
    assert given.run(["map"], {"x": scores(2, 1)})[0][1].keys() == set(LABELS)


def test_a_known_model_with_endings_reads_no_nodes():
    check(session(classifier()), scores(4, 0))
    second = session(classifier())
    check(second, scores(4, 1))
    assert not is_loaded(second)
    check(second, scores(3, 2))
    assert is_loaded(second)


def test_a_sequence_of_results_comes_in_order():
    nodes = [
        helper.make_node("Neg", ["x"], ["opposite"]),
        helper.make_node("SequenceConstruct", ["opposite", "x"], ["both"]),
    ]
    both = helper.make_tensor_sequence_value_info("both", FLOAT, None)
    given = session(made(nodes, [tensor("x", FLOAT, ["n"])], [both]))
    for number in range(3):
        x = np.arange(3, dtype=np.float32) + number
        opposite, same = given.run(None, {"x": x})[0]
        np.testing.assert_array_equal(opposite, -x)
        np.testing.assert_array_equal(same, x)


def test_text_that_comes_first_is_looked_up_in_each_run():
    nodes = [
        ml("LabelEncoder", ["x"], ["number"], keys_strings=LABELS, values_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Add", ["number", "number"], ["twice"]),
        helper.make_node("Cast", ["twice"], ["text"], to=STRING),
    ]
    outputs = [tensor("twice", FLOAT, ["n"]), tensor("text", STRING, ["n"])]
    given = session(made(nodes, [tensor("x", STRING, ["n"])], outputs))
    for words in (["calm", "windy"], ["windy", "windy"], ["höher"], ["calm", "höher"]):
        twice, text = given.run(None, {"x": np.array(words, object)})
        assert twice.tolist() == [2.0 * LABELS.index(x) + 2 for x in words]
        assert text.tolist() == [str(int(x)) for x in twice]


def test_attributes_that_json_cannot_say_are_not_kept():
    text = GraphNode(
        "n", "ai.onnx.ml.ZipMap", ("x",), ("y",), {"classlabels_strings": [b"a", b"b"]}
    )
    again = read_endings(written_endings((text,)))[0]
    assert again.attributes == {"classlabels_strings": ["a", "b"]}
    assert (again.name, again.op, again.inputs, again.outputs) == ("n", text.op, ("x",), ("y",))
    whole = replace(text, after=("m",), version=10, source=("f.onnx", 3))
    for field in fields(GraphNode):
        kept = read_endings(json.loads(json.dumps(written_endings((whole,)))))[0]
        if field.name != "attributes":
            assert getattr(kept, field.name) == getattr(whole, field.name)
    for value in (b"\xff", np.zeros(2), float("nan")):
        assert written_endings((GraphNode("n", "Op", (), (), {"a": value}),)) is None
    assert can_end(text)


def test_an_ending_that_fails_is_named():
    node = GraphNode("map", "ai.onnx.ml.ZipMap", ("x",), ("y",), {"classlabels_int64s": [1, 2]})
    with pytest.raises(GraphError, match="2 labels for 3 scores"):
        EndingRun((node,))({"x": np.zeros((1, 3), np.float32)})


def test_outputs_of_models_with_functions_need_no_types():
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    node = helper.make_node("Twice", ["x"], ["y"], domain="own")
    inputs = [tensor("x", FLOAT, ["n"])]
    graph = helper.make_graph([node], "graph", inputs, [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    given = helper.make_model(graph, opset_imports=imports, functions=[twice], ir_version=8)
    found = session(given.SerializeToString()).run(None, {"x": np.ones(3, np.float32)})
    assert found[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("in_sequence", [True, False])
def test_weights_among_results_cannot_be_written(in_sequence):
    weights = np.ones((3, 2000), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"])]
    outputs = [tensor("s", FLOAT, ["n", 2000]), tensor("w", FLOAT, [3, 2000])]
    if in_sequence:
        nodes.append(helper.make_node("SequenceConstruct", ["w", "s"], ["q"]))
        outputs[1] = helper.make_tensor_sequence_value_info("q", FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [tensor("x", FLOAT, ["n", 3])], outputs)
    graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    for _ in range(2):
        given = session(model)
        for _ in range(2):
            sums, found = given.run(None, {"x": np.ones((2, 3), np.float32)})
            assert (sums == 3).all()
            assert not (found[0] if in_sequence else found).flags.writeable
