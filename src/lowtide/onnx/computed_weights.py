"""Functions of weights, such as the matrix of a Fourier transform: computed once a session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode, OpGraph
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import Array
from lowtide.onnx.runner import GraphRunner

_MOST_BYTES: Final = 4 << 20
"""Bytes of a result that is larger than the weights that go for it."""

_MOST_WORK: Final = 64 << 20
"""Bytes of all values together that are computed for the results of a model."""

_FUNCTIONS: Final = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BlackmanWindow", "Cos", "Cosh", "DFT",
    "Div", "Erf", "Exp", "Gemm", "HammingWindow", "HannWindow", "LayerNormalization", "Log",
    "LogSoftmax", "MatMul", "MelWeightMatrix", "Mod", "Pow", "ReduceL2", "ReduceMean",
    "ReduceSum", "ReduceSumSquare", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Sqrt",
    "Tan", "Tanh"
})  # fmt: skip
"""Operators that take so long that their results are worth the memory."""

_OTHERS: Final = frozenset({
    "Abs", "Add", "Cast", "Ceil", "Clip", "Concat", "Constant", "Expand", "Flatten", "Floor",
    "Gather", "Identity", "Max", "Min", "Mul", "Neg", "Range", "Reciprocal", "Reshape", "Round",
    "Shape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze"
})  # fmt: skip
"""Operators that are computed with those, for them or behind them, but not alone."""


def with_functions_computed(model: OnnxModel) -> OnnxModel:
    """Return a model in which results of functions of weights alone are initializers.

    They are what the evaluator gives; so are results of few numbers. What may be fed stays, and so
    does what would take much more memory than the weights, or long to compute.
    """
    fed = {x.name for x in model.overridable}
    weights = {x: y for x, y in model.initializers.items() if x not in fed}
    nodes = _computed(model.graph.nodes, weights)
    slow = _slow(nodes)
    names = {x.name for x in nodes}
    read = {*model.graph.outputs, *_read(x for x in model.graph.nodes if x.name not in names)}
    wanted = sorted(slow.intersection(read).difference(model.graph.outputs))
    if not wanted:
        return model
    needed = _needed(nodes, wanted)
    try:
        results = _evaluated(model.graph.name, needed, weights, wanted)
    except LowtideError:
        return model  # The node's own error is raised where the model runs.
    return _with(model, _worth_it(results, needed, weights, read), nodes)


def _read(nodes: Iterable[GraphNode]) -> set[str]:
    return {x for node in nodes for x in reads_of(node)}


def _computed(nodes: Collection[GraphNode], weights: Mapping[str, Array]) -> list[GraphNode]:
    """The nodes that read nothing but weights and results of each other, in order."""
    known, found = set(weights), []
    for node in nodes:
        is_known = node.op in _FUNCTIONS or node.op in _OTHERS
        has_graph = any(isinstance(x, OpGraph) for x in node.attributes.values())
        if is_known and not has_graph and known.issuperset(filter(None, node.inputs)):
            known.update(node.outputs)
            found.append(node)
    return found


def _slow(nodes: Collection[GraphNode]) -> set[str]:
    """The results that it takes a function to compute."""
    found = set[str]()
    for node in nodes:
        if node.op in _FUNCTIONS or not found.isdisjoint(node.inputs):
            found.update(filter(None, node.outputs))
    return found


def _needed(nodes: list[GraphNode], wanted: Collection[str]) -> list[GraphNode]:
    """The nodes that some values are computed by."""
    names, found = set(wanted), []
    for node in reversed(nodes):
        if not names.isdisjoint(node.outputs):
            names.update(node.inputs)
            found.append(node)
    return found[::-1]


def _evaluated(
    name: str, nodes: list[GraphNode], weights: Mapping[str, Array], wanted: list[str]
) -> dict[str, Array]:
    """The values of some results; raises LowtideError where they take too long, or are none."""
    read = _read(nodes)
    constants = {x: y for x, y in weights.items() if x in read}
    graph = OpGraph(name, (), tuple(nodes), tuple(wanted))
    values = GraphRunner(graph, _program, constants).run({})
    return {x: y for x, y in zip(wanted, values, strict=True) if isinstance(y, np.ndarray)}


def _program(module: Module) -> Callable[..., Any]:
    from lowtide.evaluator import evaluate

    shapes = [x.shape for c in module.computations.values() for x in c.instructions.values()]
    if sum([x.nbytes for x in shapes if x.is_array]) > _MOST_WORK:
        raise LowtideError("what weights are computed to is large")
    return partial(_results, evaluate, module)


def _results(evaluate: Callable[..., Any], module: Module, *arrays: Any) -> Any:
    return evaluate(module, arrays)


def _worth_it(
    results: Mapping[str, Array],
    nodes: list[GraphNode],
    weights: Mapping[str, Array],
    read: Collection[str],
) -> dict[str, Array]:
    """Those results that are small, or no larger than the weights that nothing else reads."""
    found = {}
    for name, value in results.items():
        own = _read(_needed(nodes, [name]))
        freed = sum([weights[x].nbytes for x in own if x in weights and x not in read])
        if value.nbytes <= max(_MOST_BYTES, freed):
            found[name] = value
    return found


def _with(model: OnnxModel, results: Mapping[str, Array], computed: list[GraphNode]) -> OnnxModel:
    """The model with results that are known, without what was needed for them alone."""
    if not results:
        return model
    names = {x.name for x in computed}
    wanted = {*model.graph.outputs, *_read(x for x in model.graph.nodes if x.name not in names)}
    gone = set[str]()
    for node in reversed(computed):
        if wanted.isdisjoint(node.outputs) or not results.keys().isdisjoint(node.outputs):
            gone.add(node.name)
        else:
            wanted.update(reads_of(node))
    values = {**model.initializers, **results}
    wanted.update(x.name for x in model.overridable)
    graph = replace(model.graph, nodes=tuple([x for x in model.graph.nodes if x.name not in gone]))
    return replace(
        model, graph=graph, initializers={x: y for x, y in values.items() if x in wanted}
    )
