"""One node beside ONNX's own reference, and beside ONNX Runtime where it is installed."""

import importlib.util

import numpy as np
from onnx.reference import ReferenceEvaluator
from tests.onnx.models import helper, numpy_helper

from lowtide.onnx import InferenceSession

HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None
_TYPES = {np.dtype(object): 8}


def kind_of(array):
    known = _TYPES.get(array.dtype)
    return known or helper.np_dtype_to_tensor_dtype(array.dtype)


def one_node(op, inputs, outputs, domain, **attributes):
    """A model of one node and its feeds; inputs None are left out, `outputs` are element types."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    feeds = {n: x for n, x in zip(names, inputs, strict=True) if n}
    results = [f"y{i}" if kind else "" for i, kind in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    given = [helper.make_tensor_value_info(n, kind_of(x), x.shape) for n, x in feeds.items()]
    made = [
        helper.make_tensor_value_info(n, kind, None)
        for n, kind in zip(results, outputs, strict=True)
        if n
    ]
    versions = {"": 17, "ai.onnx.ml": 3, "com.microsoft": 1}
    imports = [helper.make_opsetid(x, y) for x, y in versions.items()]
    graph = helper.make_graph([node], "graph", given, made)
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


def ours(model, feeds, **options):
    options = {"effort": "fast", "cache": False, "threads": 1, **options}
    return InferenceSession(model, **options).run(None, feeds)


def kernels(session):
    """Lines of the scheduled HLO of a session's only program that compute something."""
    ((_, _, executable),) = session._executables()
    _, _, entry = executable.as_text().partition("ENTRY")
    return [x for x in entry.splitlines() if " fusion(" in x or " dot(" in x]


def reference(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)


def runtime(model, feeds):
    """What ONNX Runtime gives, by its exact products of bytes.

    By default it adds two of them in 16 bits on processors without VNNI, which saturates. The
    exact way is for weights that it knows: bytes with a sign are constants for it.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.x64quantprecision", "1")
    known = {name: x for name, x in feeds.items() if np.asarray(x).dtype == np.int8}
    session = onnxruntime.InferenceSession(
        _with_constants(model, known).SerializeToString(), settings, ["CPUExecutionProvider"]
    )
    return session.run(None, {name: x for name, x in feeds.items() if name not in known})


def _with_constants(model, values):
    """A copy of a model with some of its inputs as initializers."""
    made = type(model)()
    made.CopyFrom(model)
    inputs = [x for x in made.graph.input if x.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    made.graph.initializer.extend([numpy_helper.from_array(x, name) for name, x in values.items()])
    return made


def check(found, wanted, rtol=1e-4, atol=1e-5):
    """Raise AssertionError where results differ in type, sizes or values."""
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        y = np.asarray(y)
        assert x.shape == y.shape
        assert x.dtype == y.dtype or {x.dtype.kind, y.dtype.kind} <= set("OUS")
        if x.dtype.kind in "fc":
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(x, y)
