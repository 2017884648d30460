"""Functions of ONNX, the model's own and those of operators, put in place of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto

from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.onnx.calls import MAIN_DOMAINS, calls, without_kernels

_DEEPEST: Final = 8
"""How often functions are put in place that stand in the bodies of others."""

_MOST_NODES: Final = 1 << 20
"""Nodes that there may be once the model's own functions stand in place of their calls."""

_LONG_BYTES: Final = 4096
"""Initializers of more bytes are left out of what is handed to the inliner."""


def with_functions_inlined(model: ModelProto, opsets: Mapping[str, int]) -> ModelProto:
    """Return the model without calls of functions, unless its operators have kernels of their own.

    Raises GraphError for functions that cannot be put in place of their calls.
    """
    if not has_functions(model, opsets):
        return model
    if _nodes_in_place(model) > _MOST_NODES:
        raise GraphError(
            f"functions of the model cannot be put in place: more than {_MOST_NODES:,} nodes would "
            "be there"
        )
    light, heavy = _without_data(model)
    try:
        _check(light)  # The inliner ends the process for what is no valid model.
        if light.functions:
            light = _without_own_functions(light, opsets)
        for _ in range(_DEEPEST):
            expanded = _expandable(light, opsets)
            if not expanded:
                break
            _fill_defaults(light.graph, set(expanded), opsets)
            light = onnx.inliner.inline_selected_functions(
                light, expanded, inline_schema_functions=True
            )
    except Exception as error:  # The inliner raises whatever its C++ does.
        raise GraphError(f"functions of the model cannot be put in place: {error}") from error
    if heavy:
        del light.graph.input[:]
        light.graph.input.extend(model.graph.input)
        light.graph.initializer.extend(heavy)
    return light


def _nodes_in_place(model: ModelProto) -> int:
    """The nodes with own functions put in place of their calls; those that call themselves once."""
    bodies = {(x.domain, x.name): x.node for x in model.functions}
    counts: dict[tuple[str, str], int] = {}
    begun: set[tuple[str, str]] = set()
    waiting = list(bodies)
    while waiting:
        function = waiting[-1]
        called = [x for x in calls(bodies[function]) if x in bodies]
        missing = [x for x in called if x not in counts and x not in begun]
        begun.add(function)
        waiting += missing
        if not missing:
            counts[waiting.pop()] = _count(bodies[function], counts)
    return _count(model.graph.node, counts)


def _count(nodes: Iterable[NodeProto], counts: Mapping[tuple[str, str], int]) -> int:
    return sum([counts.get(x, 0) + 1 for x in calls(nodes)])


def _check(model: ModelProto) -> None:
    """Raise for what is no valid model; sizes, and types of outputs, may be left out."""
    whole = ModelProto()
    whole.CopyFrom(model)
    for value in whole.graph.output:
        if not value.HasField("type"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for value in [*whole.graph.input, *whole.graph.output]:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    onnx.checker.check_model(whole)


def _without_own_functions(model: ModelProto, opsets: Mapping[str, int]) -> ModelProto:
    """The model without calls of its own functions.

    The inliner leaves calls of functions that are written for other versions of operators than the
    model is. The checker has seen to it that these have the same operators in both versions.
    """
    for function in model.functions:
        for entry in function.opset_import:
            domain = "" if entry.domain in MAIN_DOMAINS else entry.domain
            entry.version = opsets.get(domain, entry.version)
    return onnx.inliner.inline_local_functions(model)


def has_functions(model: ModelProto, opsets: Mapping[str, int]) -> bool:
    """Whether functions are called: the model's own, or operators that have bodies only."""
    return bool(model.functions or _expandable(model, opsets))


def _expandable(model: ModelProto, opsets: Mapping[str, int]) -> list[tuple[str, str]]:
    """The operators without kernels whose bodies ONNX has."""
    own = {(x.domain, x.name) for x in model.functions}
    bodies = [node for x in model.functions for node in x.node]
    foreign = without_kernels([*model.graph.node, *bodies])
    return [x for x in foreign if x not in own and _has_body(x, opsets)]


def _fill_defaults(
    graph: GraphProto, operators: set[tuple[str, str]], opsets: Mapping[str, int]
) -> None:
    """Write down the attributes of calls that are left out: bodies refer to them by name."""
    waiting = [*graph.node]
    while waiting:
        node = waiting.pop()
        domain = "" if node.domain in MAIN_DOMAINS else node.domain
        waiting += [x for attribute in node.attribute for x in attribute.g.node]
        if (domain, node.op_type) not in operators:
            continue
        schema = onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
        given = {x.name for x in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in given and attribute.default_value.name:
                node.attribute.append(attribute.default_value)


def _has_body(operator: tuple[str, str], opsets: Mapping[str, int]) -> bool:
    domain, name = operator
    try:
        schema: Any = onnx.defs.get_schema(name, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _without_data(model: ModelProto) -> tuple[ModelProto, list[onnx.TensorProto]]:
    """The model with inputs in place of initializers that are long or in other files, and these."""
    heavy, short = list[onnx.TensorProto](), list[onnx.TensorProto]()
    for tensor in model.graph.initializer:
        is_apart = tensor.data_location == onnx.TensorProto.EXTERNAL
        (heavy if is_apart or tensor.ByteSize() > _LONG_BYTES else short).append(tensor)
    if not heavy:
        light = ModelProto()
        light.CopyFrom(model)
        return light, []
    light = ModelProto()
    _copy_fields(model, light, ("graph",))
    _copy_fields(model.graph, light.graph, ("initializer",))
    light.graph.initializer.extend(short)
    known = {x.name for x in model.graph.input}
    for tensor in heavy:
        if tensor.name not in known:
            given = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(given)
    return light, heavy


def _copy_fields(source: Any, target: Any, but: tuple[str, ...]) -> None:
    for field, value in source.ListFields():
        if field.name in but:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
