"""The front door for TensorFlow: lists of nodes, as in a GraphDef and its library of functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from lowtide.frontend.graphs.compiler import GraphProgram, compile_graph
from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph, needed_nodes
from lowtide.frontend.tensorflow.frames import functional
from lowtide.frontend.tensorflow.missing import check_ops
from lowtide.ir import Shape, array_shape
from lowtide.ir.literal import Array
from lowtide.records import dataclass
from lowtide.suggestions import nearest

DOMAIN: Final = "tf"


@dataclass(frozen=True, eq=False, slots=True)
class NodeDef:
    """One node; inputs are "node", "node:1" for another output than 0, or "^node" to come after it.

    In functions "node:name:0" is output 0 of those of a name. Attributes are numbers, text, lists,
    dtypes under any name, shapes as sequences, arrays, or names of functions.
    """

    name: str
    op: str
    inputs: Sequence[str] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class FunctionDef:
    """A function: names of its arguments, its nodes, and the values that it returns."""

    name: str
    arguments: Sequence[str]
    nodes: Sequence[NodeDef]
    results: Sequence[str]


def compile_graph_def(
    nodes: Sequence[NodeDef],
    fetches: Sequence[str],
    arguments: Mapping[str, Shape | Array] | None = None,
    functions: Sequence[FunctionDef] = (),
    name: str = "graph",
) -> GraphProgram:
    """Return the module that computes the fetched values, e.g. "logits" or "split:1".

    `arguments` feed values by name: those given by shape become the parameters, in this order, and
    arrays are constants. Other placeholders that are needed and have a dtype and a full shape
    follow in the order of the nodes. Raises GraphError and UnsupportedOpError, which name the node.
    """
    fed = {value_name(x, {}): value for x, value in (arguments or {}).items()}
    graph = op_graph(name, (), nodes, fetches)
    for node in nodes:
        if node.op == "Placeholder" and f"{node.name}:0" not in fed:
            shape = _placeholder_shape(node)
            if shape is not None:
                fed[f"{node.name}:0"] = shape
    library = {f.name: op_graph(f.name, f.arguments, f.nodes, f.results) for f in functions}
    given = {x.rpartition(":")[0] for x in fed}
    kept = given.union([x.name for x in needed_nodes(graph, fed)])
    used = tuple([x for x in graph.nodes if x.name in kept])
    found = functional(OpGraph(graph.name, graph.inputs, used, graph.outputs))
    library |= found.functions
    check_ops(DOMAIN, found.graph, [*fed], library)
    return compile_graph(DOMAIN, found.graph, fed, library)


def _placeholder_shape(node: NodeDef) -> Shape | None:
    sizes = node.attributes.get("shape")
    if sizes is None or any(x is None or x < 0 for x in sizes) or "dtype" not in node.attributes:
        return None
    try:
        return array_shape(element_type_of(node.attributes["dtype"]), tuple(sizes))
    except ValueError as error:
        raise GraphError(f"attribute 'dtype': {error}", node=node.name, op=node.op) from error


def op_graph(
    name: str, arguments: Sequence[str], nodes: Sequence[NodeDef], results: Sequence[str]
) -> OpGraph:
    """Return nodes as a graph: values are "node:number", results those that are named."""
    ops = {node.name: node.op for node in nodes}
    wanted = [value_name(x, ops) for x in results]
    read = [
        [value_name(x, ops) for x in node.inputs if x[:1] != "^"]
        if node.op not in WITHOUT_OUTPUTS
        else []
        for node in nodes
    ]
    counts: dict[str, int] = {}
    for value in [*wanted, *[x for inputs in read for x in inputs]]:
        source, _, number = value.rpartition(":")
        counts[source] = max(counts.get(source, 1), int(number) + 1)
    converted = [
        GraphNode(
            node.name,
            node.op,
            tuple(inputs),
            tuple([f"{node.name}:{i}" for i in range(counts.get(node.name, 1))])
            if node.op not in WITHOUT_OUTPUTS
            else (),
            node.attributes,
            tuple([x[1:] for x in node.inputs if x[:1] == "^"]),
        )
        for node, inputs in zip(nodes, read, strict=True)
    ]
    return OpGraph(name, tuple([f"{x}:0" for x in arguments]), tuple(converted), tuple(wanted))


def value_name(reference: str, ops: Mapping[str, str] | None = None) -> str:
    """Return "node:number" for any way to write an input."""
    parts = reference.split(":")
    if len(parts) > 3 or not all(parts) or (len(parts) > 1 and not parts[-1].isdigit()):
        raise GraphError(f"{reference!r} is no input: expected 'node', 'node:1' or 'node:name:0'")
    number = int(parts[-1]) if len(parts) > 1 else 0
    op = (ops or {}).get(parts[0], "") if len(parts) == 3 else ""
    if op in OUTPUT_NAMES:
        number = _output_number(reference, op, parts[1])
    return f"{parts[0]}:{number}"


def _output_number(reference: str, op: str, name: str) -> int:
    names = OUTPUT_NAMES[op]
    if name not in names:
        raise GraphError(f"{reference!r}: {op} has no output {name!r}{nearest(name, names)}")
    return names.index(name)


_BATCH_NORM: Final = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")
_BATCH_NORM_GRAD: Final = ("x_backprop", "scale_backprop", "offset_backprop")

WITHOUT_OUTPUTS: Final = ("Assert", "NoOp", "PrintV2")
"""Ops that other nodes only wait for; what they read and would say is left out."""

OUTPUT_NAMES: Final = {
    "ApproxTopK": ("values", "indices"),
    "BroadcastGradientArgs": ("r0", "r1"),
    "CombinedNonMaxSuppression": (
        *("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"),
    ),
    "FusedBatchNorm": _BATCH_NORM,
    "FusedBatchNormGrad": (*_BATCH_NORM_GRAD, "reserve_space_3", "reserve_space_4"),
    "FusedBatchNormGradV2": (*_BATCH_NORM_GRAD, "reserve_space_3", "reserve_space_4"),
    "FusedBatchNormGradV3": (*_BATCH_NORM_GRAD, "reserve_space_4", "reserve_space_5"),
    "FusedBatchNormV2": _BATCH_NORM,
    "FusedBatchNormV3": (*_BATCH_NORM, "reserve_space_3"),
    "ListDiff": ("out", "idx"),
    "LogMatrixDeterminant": ("sign", "log_abs_determinant"),
    "Lu": ("lu", "p"),
    "Merge": ("output", "value_index"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "Qr": ("q", "r"),
    "RefMerge": ("output", "value_index"),
    "RefSwitch": ("output_false", "output_true"),
    "SelfAdjointEigV2": ("e", "v"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "StatelessRandomGetKeyCounter": ("key", "counter"),
    "StatelessRandomGetKeyCounterAlg": ("key", "counter", "alg"),
    "Svd": ("s", "u", "v"),
    "Switch": ("output_false", "output_true"),
    "TensorArrayConcatV3": ("value", "lengths"),
    "TensorArrayV3": ("handle", "flow"),
    "TensorListConcat": ("tensor", "lengths"),
    "TensorListConcatV2": ("tensor", "lengths"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "TopKV2": ("values", "indices"),
    "Unique": ("y", "idx"),
    "UniqueV2": ("y", "idx"),
    "UniqueWithCounts": ("y", "idx", "count"),
}
"""The outputs by name: in functions, inputs name these. An op that is not here has one output, or
a list of them under one name."""
