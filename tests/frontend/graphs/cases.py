"""How a case of the tables runs: one node, its inputs parameters or constants, by the evaluator."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.evaluator import evaluate
from lowtide.frontend.onnx import OnnxNode, compile_nodes
from lowtide.frontend.tensorflow import NodeDef, compile_graph_def
from lowtide.ir import array_shape
from lowtide.ir.literal import ELEMENT_TYPES
from lowtide.verifier import verify


@dataclass(frozen=True)
class Known:
    """An input whose value is known when the graph is compiled."""

    value: Any

    @property
    def array(self):
        return np.asarray(self.value)


@dataclass(frozen=True)
class Case:
    """One node and what NumPy says that it gives: one array, or a list for several outputs."""

    op: str
    inputs: list
    expected: Any
    attributes: dict = field(default_factory=dict)
    tolerance: float = 1e-5

    @property
    def results(self):
        return self.expected if isinstance(self.expected, list) else [self.expected]

    def __str__(self):
        words = [f"{k}={v}" for k, v in self.attributes.items() if type(v) in (int, bool, str)]
        shown = ",".join(words)
        return f"{self.op}({shown})"


def shape_of(array):
    return array_shape(ELEMENT_TYPES[array.dtype], array.shape)


def feeds(case):
    """Return the inputs by name, and the arrays for those that become parameters."""
    named = {f"x{i}": x for i, x in enumerate(case.inputs) if x is not None}
    given = {
        name: x.array if isinstance(x, Known) else shape_of(np.asarray(x))
        for name, x in named.items()
    }
    arrays = [np.asarray(x) for x in named.values() if not isinstance(x, Known)]
    return given, arrays


def run_tensorflow(case):
    given, arrays = feeds(case)
    nodes = [NodeDef(name, "Placeholder") for name in given]
    nodes.append(NodeDef("y", case.op, list(given), case.attributes))
    fetches = [f"y:{i}" for i in range(len(case.results))]
    program = compile_graph_def(nodes, fetches, given)
    verify(program.module)
    return evaluate(program.module, arrays)


def run_onnx(case):
    given, arrays = feeds(case)
    inputs = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    outputs = [f"y{i}" for i in range(len(case.results))]
    program = compile_nodes([OnnxNode(case.op, inputs, outputs, case.attributes)], given, outputs)
    verify(program.module)
    return evaluate(program.module, arrays)


def check(case, results):
    for found, wanted in zip(results, case.results, strict=True):
        wanted = np.asarray(wanted)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(found, wanted)
        else:
            wide = np.result_type(found.dtype, np.float32)
            near = [x.astype(wide) for x in (found, wanted)]
            np.testing.assert_allclose(*near, case.tolerance, case.tolerance)
