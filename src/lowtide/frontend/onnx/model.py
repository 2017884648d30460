"""ONNX models: ModelProto read into a graph of nodes, its inputs, outputs and initializers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError, Message

from lowtide.frontend.file_kinds import foreign_kind, looks_like_tflite
from lowtide.frontend.graphs.dtypes import ONNX
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.frontend.onnx.calls import MAIN_DOMAINS, without_kernels
from lowtide.frontend.onnx.interface import LabelColumns, ValueType
from lowtide.frontend.onnx.labels import with_labels_apart
from lowtide.frontend.onnx.messages import ATTRIBUTE_TYPES, STRING, TYPE_NAMES, package_onnx, parsed
from lowtide.frontend.onnx.node_list import innermost_frame
from lowtide.frontend.onnx.tensors import RawPlace, TensorSource, array_of, dense, raw_place
from lowtide.frontend.onnx.texts import find_bad_string, name_of, names_of
from lowtide.frontend.onnx.tiny_weights import without_tiny_weights
from lowtide.frontend.onnx.wire import OnnxWireError, without_long_data
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.literal import Array
from lowtide.ir.shape import Shape, array_shape
from lowtide.records import dataclass

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

NEWEST_OPSET: Final = 28
"""The newest opset of the main domain whose operators are known."""

_FREE: Final = -1
"""The size by which some exporters say that a dimension is free."""

_DEEPEST: Final = 32
"""How deep graphs may stand in nodes of graphs."""


@dataclass(frozen=True, eq=False, slots=True)
class OnnxModel:
    """A model: its graph, the types of its inputs and outputs, and the values it starts from.

    `inputs` leave out those that `initializers` have a value for, which are `overridable`. `opsets`
    are versions by domain. `places` says where initializers begin that lie in a file as they are,
    `other_files` which files besides the model's have data of it.
    """

    name: str
    graph: OpGraph
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    initializers: Mapping[str, Array]
    opsets: Mapping[str, int]
    metadata: Mapping[str, str] = field(default_factory=dict)
    overridable: tuple[ValueType, ...] = ()
    labels: LabelColumns = field(default_factory=LabelColumns)
    places: Mapping[str, RawPlace] = field(default_factory=dict)
    other_files: tuple[str, ...] = ()


def load_model(source: str | os.PathLike[str] | bytes | ModelProto) -> OnnxModel:
    """Return the model in a file, in bytes, or given itself.

    Data beside the model is found only for a path. Raises InputError for what is no model, and
    GraphError for a model that breaks the rules of ONNX.
    """
    if isinstance(source, Message):
        if source.DESCRIPTOR.name != "ModelProto":
            raise InputError(f"expected a ModelProto of ONNX, found a {source.DESCRIPTOR.name}")
        return read_model(source)
    if isinstance(source, bytes):
        return _model_in(source, "<bytes>", None)
    path = Path(source)
    try:
        with path.open("rb") as file:
            is_mapped = path.is_file() and path.stat().st_size > 0
            data = mmap(file.fileno(), 0, access=ACCESS_READ) if is_mapped else file.read()
        return _model_in(data, str(path), path.parent)
    except OSError as error:
        raise InputError(
            f"cannot be read: {(error.strerror or 'no file').lower()}", file=str(path)
        ) from error


def _model_in(data: Any, file: str, folder: Path | None) -> OnnxModel:
    """The model in bytes; the data of long tensors is read from there when its turn comes.

    What is mapped is let go of with the last view of it, that of an error too.
    """
    view = memoryview(data)
    try:
        light = _parsed(without_long_data(view), file)
    except OnnxWireError as error:
        raise InputError(_no_model(view, f"{error}"), file=file) from error
    if _may_have_functions(light):
        package_onnx(file)
        from lowtide.frontend.onnx.functions import has_functions

        if has_functions(light, _opsets(light)):
            light = _parsed_by_onnx(bytes(view), file)
    return read_model(light, TensorSource(folder, view))


def _may_have_functions(model: ModelProto) -> bool:
    """Whether functions may be called, which the package onnx puts in place of their calls."""
    return bool(model.functions or without_kernels(model.graph.node))


def _parsed(data: bytes, file: str) -> ModelProto:
    try:
        model = parsed(data)
    except DecodeError:
        model = _parsed_by_onnx(data, file)
    return _checked(model, data, file)


def _parsed_by_onnx(data: bytes, file: str) -> ModelProto:
    """The same as a message of the package onnx."""
    try:
        model: ModelProto = package_onnx(file).load_model_from_string(data)
    except (DecodeError, ValueError, TypeError) as error:
        raise InputError(_no_model(data, f"{error}"), file=file) from error
    if bad := find_bad_string(model):
        raise InputError("the string is not UTF-8", file=file, position=bad)
    return _checked(model, data, file)


def _checked(model: ModelProto, data: bytes, file: str) -> ModelProto:
    if not model.HasField("graph") or not model.opset_import:
        why = "it has no graph or no opset" if data else "the file is empty"
        raise InputError(_no_model(data, why), file=file)
    return model


def _no_model(data: bytes | memoryview, why: str) -> str:
    """What to say of bytes that are no model: what they are instead, or else what is wrong."""
    if kind := foreign_kind(data):
        return f"this is {kind}; expected an ONNX model"
    if looks_like_tflite(data):
        return "this is a TFLite model: rename it to end in .tflite"
    from lowtide.frontend.tensorflow.messages import looks_like_graph  # Models load none of it.

    if looks_like_graph(bytes(data)):
        return "this is a graph of TensorFlow: rename it to end in .pb"
    return f"this is no ONNX model: {why}"


def read_model(model: ModelProto, source: TensorSource | None = None) -> OnnxModel:
    """Return a model, `source` being where the data of tensors lies; raises GraphError.

    Tiny weights are zeros in it, as `without_tiny_weights` has them.
    """
    opsets = _opsets(model)
    if _may_have_functions(model):
        package_onnx()
        from lowtide.frontend.onnx.functions import with_functions_inlined

        model = with_functions_inlined(model, opsets)
    graph = model.graph
    source = source or TensorSource()
    reader = _GraphReader(_opsets(model), source)
    initializers = reader.initializers(graph)
    places = _places(graph, initializers)
    inputs = [_value_type(x.name, x.type) for x in graph.input if x.name not in initializers]
    _check_names(graph)
    found, constants = _without_constants(reader.graph(graph, top=True))
    initializers.update(constants)
    read = OnnxModel(
        name_of(graph.name) or "graph",
        found,
        tuple(inputs),
        tuple([_value_type(x.name, x.type) for x in graph.output]),
        initializers,
        opsets,
        {x.key: x.value for x in model.metadata_props},
        tuple([_value_type(x.name, x.type) for x in graph.input if x.name in initializers]),
        LabelColumns(
            model.producer_name,
            graph.name,
            model.domain,
            model.doc_string,
            graph.doc_string,
            model.model_version,
        ),
        places,
        tuple(sorted(source.other_files)),
    )
    return without_tiny_weights(read)


def _places(graph: GraphProto, initializers: Mapping[str, Array]) -> dict[str, RawPlace]:
    found = {}
    for tensor in graph.initializer:
        name = name_of(tensor.name)
        place = raw_place(tensor, initializers[name])
        if place is not None:
            found[name] = place
    return found


def _without_constants(graph: OpGraph) -> tuple[OpGraph, dict[str, Array]]:
    """Return a graph without nodes that are tensors, and these by the names of their values.

    Some exporters write weights so; as initializers all programs of a session share them.
    """
    found: dict[str, Array] = {}
    rest: list[GraphNode] = []
    for node in graph.nodes:
        value = node.attributes.get("value") if node.op == "Constant" else None
        if isinstance(value, np.ndarray) and len(node.outputs) == 1 and node.outputs[0]:
            found[node.outputs[0]] = value
        else:
            rest.append(node)
    return OpGraph(graph.name, graph.inputs, tuple(rest), graph.outputs), found


def _opsets(model: ModelProto) -> dict[str, int]:
    found = {
        "" if x.domain in MAIN_DOMAINS else name_of(x.domain): x.version for x in model.opset_import
    }
    if found.get("", 1) < 1 or found.get("", 1) > NEWEST_OPSET:
        raise GraphError(f"the model is of opset {found['']}; known are 1 to {NEWEST_OPSET}")
    return found


def _check_names(graph: GraphProto) -> None:
    names = names_of([x.name for x in [*graph.input, *graph.output]])[: len(graph.input)]
    if "" in names or len(set(names)) < len(names):
        raise GraphError(f"the inputs of graph {graph.name!r} need different names, found {names}")


def _value_type(name: str, given: TypeProto) -> ValueType:
    kind = given.WhichOneof("value") or "tensor_type"
    short = kind.removesuffix("_type")
    if short not in ("tensor", "sparse_tensor"):
        return ValueType(name, short, text=type_text(given))
    element_type, sizes = _tensor_type(name, given)
    return ValueType(name, "tensor", element_type, sizes, type_text(given))


def type_text(given: TypeProto) -> str:
    """Return a type as ONNX Runtime writes it, such as "tensor(float)"."""
    kind = given.WhichOneof("value") or "tensor_type"
    if kind == "sequence_type":
        return f"seq({type_text(given.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({type_text(given.optional_type.elem_type)})"
    if kind == "map_type":
        key = _type_name(given.map_type.key_type)
        return f"map({key},{type_text(given.map_type.value_type)})"
    if kind == "opaque_type":
        return f"opaque({given.opaque_type.domain},{given.opaque_type.name})"
    short = kind.removesuffix("_type")
    return f"{short}({_type_name(getattr(given, kind).elem_type)})"


def _type_name(number: int) -> str:
    return TYPE_NAMES[number if 0 <= number < len(TYPE_NAMES) else 0].lower()


def _tensor_type(
    name: str, given: TypeProto
) -> tuple[ElementType | None, tuple[int | str | None, ...] | None]:
    tensor = given.tensor_type
    if tensor.elem_type and tensor.elem_type not in ONNX and tensor.elem_type != STRING:
        raise GraphError(f"value {name!r} has the unknown element type {tensor.elem_type}")
    sizes: list[int | str | None] = []
    for entry in tensor.shape.dim:
        if entry.HasField("dim_value") and entry.dim_value != _FREE:
            if entry.dim_value < 0:
                raise GraphError(f"value {name!r} has a dimension of size {entry.dim_value}")
            sizes.append(entry.dim_value)
        else:
            sizes.append(name_of(entry.dim_param) or None)
    found = tuple(sizes) if tensor.HasField("shape") else None
    return ONNX.get(tensor.elem_type), found


def _declared(value: ValueInfoProto) -> Shape | None:
    """The type of an output of a graph inside of a node, None where it is no array of numbers."""
    element_type, sizes = _tensor_type(value.name, value.type)
    if element_type is None or sizes is None:
        return None
    known = [x if isinstance(x, int) else 0 for x in sizes]
    return array_shape(element_type, tuple(known))


class _GraphReader:
    """What all graphs of a model share while they are read."""

    def __init__(self, opsets: Mapping[str, int], source: TensorSource) -> None:
        self._opsets = opsets
        self._source = source

    def initializers(self, graph: GraphProto) -> dict[str, Array]:
        """Return the values that a graph starts from."""
        found = {name_of(x.name): array_of(x, self._source) for x in graph.initializer}
        found.update({x.values.name: dense(x, self._source) for x in graph.sparse_initializer})
        return found

    def graph(self, graph: GraphProto, depth: int = 0, *, top: bool = False) -> OpGraph:
        """Return a graph; initializers of one inside of a node are nodes of it."""
        if depth > _DEEPEST:
            raise GraphError(f"graphs stand more than {_DEEPEST} levels deep in nodes")
        nodes: list[GraphNode] = []
        taken: set[str] = set()
        for name, value in ({} if top else self.initializers(graph)).items():
            node_name = _unused(f"initializer {name}", taken)
            nodes.append(GraphNode(node_name, "Constant", (), (name,), {"value": value}))
        for number, node in enumerate(graph.node):
            nodes.append(
                self._node(
                    node, _unused(name_of(node.name) or f"{node.op_type}_{number}", taken), depth
                )
            )
        return OpGraph(
            name_of(graph.name) or "graph",
            names_of([x.name for x in graph.input]),
            tuple(with_labels_apart(nodes)),
            names_of([x.name for x in graph.output]),
            () if top else tuple(map(_declared, graph.output)),
        )

    def _node(self, node: NodeProto, name: str, depth: int) -> GraphNode:
        domain = "" if node.domain in MAIN_DOMAINS else name_of(node.domain)
        return GraphNode(
            name,
            f"{domain}.{name_of(node.op_type)}" if domain else name_of(node.op_type),
            names_of(node.input),
            names_of(node.output),
            {name_of(x.name): self._attribute(x, name, depth) for x in node.attribute},
            version=self._opsets.get(domain, 1),
            source=innermost_frame({x.key: x.value for x in node.metadata_props}),
        )

    def _attribute(self, given: AttributeProto, node: str, depth: int) -> Any:
        kind = ATTRIBUTE_TYPES[given.type] if 0 <= given.type < len(ATTRIBUTE_TYPES) else ""
        if kind == "GRAPH":
            return self.graph(given.g, depth + 1)
        if kind == "TENSOR":
            return array_of(given.t, self._source)
        if kind == "SPARSE_TENSOR":
            return dense(given.sparse_tensor, self._source)
        if kind in _LISTS:
            return list(getattr(given, _LISTS[kind]))
        if kind == "TENSORS":
            return [array_of(x, self._source) for x in given.tensors]
        if kind == "GRAPHS":
            return [self.graph(x, depth + 1) for x in given.graphs]
        if kind == "TYPE_PROTO":
            return _value_type(given.name, given.tp)
        if kind not in _SINGLE:
            raise GraphError(
                f"attribute {given.name!r} has the unknown type {given.type}", node=node
            )
        return getattr(given, _SINGLE[kind])


_SINGLE: Final = {"FLOAT": "f", "INT": "i", "STRING": "s"}
_LISTS: Final = {"FLOATS": "floats", "INTS": "ints", "STRINGS": "strings"}


def _unused(name: str, taken: set[str]) -> str:
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}.{number}"
    taken.add(found)
    return found
