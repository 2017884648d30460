"""ONNX Runtime's call signature, and what sessions keep: programs by shapes, memory, plans."""

import io
import sys
import warnings

import numpy as np
import pytest
from tests.onnx.models import (
    FLOAT,
    INT64,
    WEIGHTS,
    helper,
    model,
    numpy_helper,
    onnx,
    perceptron,
    tensor,
)

import lowtide.onnx
from lowtide.ir import InputError, LowtideError
from lowtide.onnx import GraphOptimizationLevel, InferenceSession, RunOptions, SessionOptions
from lowtide.onnx.progress import shown_on_terminal

QUICK = {"effort": "fast", "cache": False, "threads": 1}
X = np.ones((2, 96), np.float32)
EXPECTED = np.maximum(X @ WEIGHTS, 0)


def close(found):
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-4, atol=1e-4)


def test_a_call_as_one_of_onnx_runtime_works():
    options = SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
    data = perceptron().SerializeToString()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = InferenceSession(
            data, options, ["CPUExecutionProvider"], effort="fast", cache=False
        )
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_session_options() is options
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    close(session.run(None, {"x": X}, RunOptions())[0])
    close(session.run([], {"x": X}, None)[0])
    close(session.run(output_names=["y"], input_feed={"x": X}, run_options=None)[0])
    assert lowtide.onnx.get_available_providers() == session.get_providers()


def test_what_has_no_meaning_is_named_in_one_warning():
    options = SessionOptions()
    options.enable_profiling = True
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = [("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="ignored: CUDA.*, enable_profiling, graph_opt") as found:
        session = InferenceSession(perceptron(), options, providers, **QUICK)
    assert len(found) == 1
    assert found[0].filename == __file__
    with pytest.warns(UserWarning, match="ignored: TensorrtExecutionProvider$"):
        session.set_providers(["TensorrtExecutionProvider"])


def test_the_model_says_what_it_says_of_itself():
    proto = perceptron()
    proto.producer_name, proto.doc_string, proto.model_version = "maker", "a layer", 3
    proto.metadata_props.add(key="labels", value="a,b")
    meta = InferenceSession(proto, **QUICK).get_modelmeta()
    assert (meta.producer_name, meta.description, meta.version) == ("maker", "a layer", 3)
    assert (meta.graph_name, meta.custom_metadata_map) == ("graph", {"labels": "a,b"})


def test_types_are_written_as_onnx_runtime_writes_them():
    kinds = {"a": 1, "b": 10, "c": 16, "d": 9, "e": 8, "f": 17}
    inputs = [tensor(name, kind, [1]) for name, kind in kinds.items()]
    inputs.append(helper.make_tensor_sequence_value_info("g", INT64, None))
    session = InferenceSession(model([], inputs, []), **QUICK)
    assert [x.type for x in session.get_inputs()] == [
        "tensor(float)",
        "tensor(float16)",
        "tensor(bfloat16)",
        "tensor(bool)",
        "tensor(string)",
        "tensor(float8e4m3fn)",
        "seq(tensor(int64))",
    ]


def test_inputs_with_values_may_be_fed():
    proto = perceptron()
    proto.graph.input.append(tensor("w", FLOAT, WEIGHTS.shape))
    session = InferenceSession(proto, **QUICK)
    assert [x.name for x in session.get_inputs()] == ["x"]
    assert [x.name for x in session.get_overridable_initializers()] == ["w"]
    close(session.run(None, {"x": X})[0])
    found = session.run(None, {"x": X, "w": np.zeros_like(WEIGHTS)})[0]
    np.testing.assert_array_equal(found, np.zeros((2, 32)))
    close(session.run(None, {"x": X})[0])


def test_lists_and_numbers_become_arrays_of_the_type_of_the_input():
    close(InferenceSession(perceptron(), **QUICK).run(None, {"x": X.tolist()})[0])
    with pytest.raises(InputError, match="input 'x' cannot be"):
        InferenceSession(perceptron(), **QUICK).run(None, {"x": [["a"]]})


def test_dimensions_with_one_name_may_differ():
    """Some exporters call each free dimension "?"."""
    node = helper.make_node("Relu", ["x"], ["y"])
    proto = model([node], [tensor("x", FLOAT, ["?", "?"])], [tensor("y", FLOAT, None)])
    assert InferenceSession(proto, **QUICK).run(None, {"x": X})[0].shape == X.shape


# -- what is kept ----------------------------------------------------------------------------------


def test_the_programs_of_the_shapes_used_last_are_kept():
    session = InferenceSession(perceptron(), kept=2, **QUICK)

    def batches():
        return [
            x["memory"]["peak"] and x["memory"]["output_bytes"] // (32 * 4)
            for x in session.memory["programs"]
        ]

    for batch in (1, 2, 1, 3):
        session.run(None, {"x": np.ones((batch, 96), np.float32)})
    assert sorted(batches()) == [1, 3]
    session.release_memory()
    assert session.memory["programs"] == []
    close(session.run(None, {"x": X})[0])
    with pytest.raises(ValueError, match="at least 1; found 0"):
        InferenceSession(perceptron(), kept=0)


def test_all_shapes_share_the_weights_in_constants_too():
    proto = perceptron()
    del proto.graph.initializer[:]
    value = numpy_helper.from_array(WEIGHTS)
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=value))
    session = InferenceSession(proto, **QUICK)
    for batch in (1, 2):
        session.run(None, {"x": np.ones((batch, 96), np.float32)})
    found = session.memory
    assert found["weight_bytes"] == WEIGHTS.nbytes
    assert [x["parameters"] for x in found["programs"]] == [["x", "w"]] * 2
    assert all(x["memory"]["constant_bytes"] < WEIGHTS.nbytes for x in found["programs"])


def test_memory_is_that_of_the_plan():
    session = InferenceSession(perceptron(), **QUICK)
    assert session.memory["programs"] == []
    session.run(None, {"x": X})
    (program,) = session.memory["programs"]
    assert program["memory"]["schema"] == "lowtide.memory/1"
    assert program["results"] == ["y"]
    assert session.memory["arena_bytes"] == program["memory"]["ladder"]["arena_bytes"]
    report = session.explain({"batch": 2})
    assert report.to_json()["output_bytes"] == 2 * 32 * 4
    with pytest.raises(InputError, match="--dim batch=SIZE"):
        session.explain()


def test_ahead_of_the_first_run_all_is_compiled():
    options = SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    for given in ({"sess_options": options}, {"sizes": {"batch": 2}}, {"shapes": {"x": (2, 96)}}):
        session = InferenceSession(perceptron(), compile="ahead", **given, **QUICK)
        before = session.memory["programs"]
        close(session.run(None, {"x": X})[0])
        assert session.memory["programs"] == before != []
    with pytest.raises(LowtideError, match="--dim batch=SIZE"):
        InferenceSession(perceptron(), compile="ahead", **QUICK)
    with pytest.raises(ValueError, match="compile is one of lazy, ahead, behind; found 'now'"):
        InferenceSession(perceptron(), compile="now")


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only_and_goes_again(monkeypatch):
    terminal = Terminal()
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("lowtide.onnx.progress._PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("lowtide.onnx.progress._TICK_SECONDS", 0.001)
    with shown_on_terminal("compiling graph"):
        while "compiling graph: " not in terminal.getvalue():
            pass
    assert terminal.getvalue().endswith("\r\x1b[K")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("lowtide.onnx.progress.Thread", None)  # No line that cannot go again.
    with shown_on_terminal("compiling graph"):
        pass
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with shown_on_terminal("compiling graph"):
        pass
    assert plain.getvalue() == ""


def test_models_with_data_beside_them_need_their_path(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(
        perceptron(), path, save_as_external_data=True, location="weights.bin", size_threshold=64
    )
    close(InferenceSession(path, **QUICK).run(None, {"x": X})[0])
    with pytest.raises(LowtideError, match="give the model by its path"):
        InferenceSession(path.read_bytes(), **QUICK)
