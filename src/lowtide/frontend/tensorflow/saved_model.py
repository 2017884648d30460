"""SavedModels: a graph with its functions, signatures, and variables from their checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from lowtide.frontend.file_kinds import SAVED_MODEL
from lowtide.frontend.graphs.compiler import compile_graph, name_ends
from lowtide.frontend.graphs.graph import OpGraph
from lowtide.frontend.tensorflow.bundle import CheckpointBundle
from lowtide.frontend.tensorflow.dtypes import type_of
from lowtide.frontend.tensorflow.frames import functional
from lowtide.frontend.tensorflow.graph_def import DOMAIN, op_graph, value_name
from lowtide.frontend.tensorflow.graph_reader import TensorFlowGraph, read_graph
from lowtide.frontend.tensorflow.lookup_tables import table_contents
from lowtide.frontend.tensorflow.messages import parse, told_with
from lowtide.frontend.tensorflow.missing import check_ops
from lowtide.frontend.tensorflow.resources import HANDLES, Stateless, shared_name, variable_value
from lowtide.frontend.tensorflow.tensors import sizes_of
from lowtide.frontend.tensorflow.variable_keys import VariableKeys
from lowtide.ir import Module, Shape, array_shape
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.ir.literal import ELEMENT_TYPES, Array
from lowtide.records import dataclass
from lowtide.suggestions import nearest

_DEFAULT: Final = "serving_default"


@dataclass(frozen=True, slots=True)
class SignatureTensor:
    """An input or output of a signature: its name there, the value, type and sizes (-1: any)."""

    name: str
    value: str
    kind: ElementType | str
    sizes: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """A function of a SavedModel; inputs and outputs are sorted by name."""

    name: str
    inputs: tuple[SignatureTensor, ...]
    outputs: tuple[SignatureTensor, ...]


@dataclass(frozen=True, eq=False, slots=True)
class SavedModelProgram:
    """The module of a signature: parameters are its inputs and then the variables that it changes.

    Results are its outputs, and then these variables, which may be written over what was given.
    `state` are their values by the numbers of the parameters.
    """

    module: Module
    signature: ModelSignature
    state: Mapping[int, Array]


def read_saved_model(
    folder: Path, signature: str | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> SavedModelProgram:
    """Return the program of a signature, `serving_default` or the only one if none is named.

    `shapes` are those of inputs by name, for which sizes of any size are left open. Raises
    InputError for a folder without weights, a wrong signature or input, sizes that are missing;
    UnsupportedOpError for ops without a kernel, GraphError for what is wrong with a node.
    """
    file = str(folder / SAVED_MODEL)
    try:
        proto = parse("SavedModel", (folder / SAVED_MODEL).read_bytes(), file)
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or '').lower()}", file=file) from error
    if not proto.meta_graphs:
        raise InputError("holds no graph", file=file)
    meta = proto.meta_graphs[0]
    with told_with(file):
        graph = read_graph(meta.graph_def)
        wanted = _chosen(meta, signature)
        return _program(folder, graph, wanted, shapes or {})


def _chosen(meta: Any, name: str | None) -> ModelSignature:
    """The signature of a name; raises InputError, with the nearest, for an unknown one."""
    known = {x.key: x.value for x in meta.signature_def if not x.key.startswith("__")}
    if not known:
        raise InputError("has no signature: save the model with signatures=")
    wanted = name or (_DEFAULT if _DEFAULT in known else "")
    if not wanted and len(known) == 1:
        (wanted,) = known
    if wanted not in known:
        shown = ", ".join(sorted(known))
        raise InputError(f"no signature {wanted!r}{nearest(wanted, known)}; there are: {shown}")
    return ModelSignature(
        wanted, *[_tensors(x) for x in (known[wanted].inputs, known[wanted].outputs)]
    )


def _tensors(entries: Any) -> tuple[SignatureTensor, ...]:
    found = [
        SignatureTensor(x.key, x.value.name, type_of(x.value.dtype), sizes_of(x.value.tensor_shape))
        for x in entries
    ]
    return tuple(sorted(found, key=lambda x: x.name))


def _program(
    folder: Path,
    graph: TensorFlowGraph,
    signature: ModelSignature,
    shapes: Mapping[str, Sequence[int]],
) -> SavedModelProgram:
    arguments: dict[str, Shape | Array] = dict(_inputs(signature, shapes))
    outputs = [x.value for x in signature.outputs]
    whole = op_graph(signature.name, (), graph.nodes, outputs)
    library = {x.name: op_graph(x.name, x.arguments, x.nodes, x.results) for x in graph.functions}
    found_graph = functional(_needed(whole, arguments))
    library |= found_graph.functions
    stateless = Stateless(library)
    found = stateless.graph(found_graph.graph)
    given_values = [*arguments, *map(variable_value, found.touched)]
    check_ops(DOMAIN, found.graph, given_values, stateless.library, stateless.refused)
    values = {x: np.zeros((), np.uint64) for x in stateless.counts}
    values |= table_contents(whole, library)
    stored = [x for x in found.touched if x not in values]
    values |= _variables(folder, graph, whole, library, stored)
    changed = [x for x in found.touched if x in found.assigned]
    arguments |= {variable_value(x): values[x] for x in found.touched if x not in changed}
    for name in changed:
        value = values[name]
        arguments[variable_value(name)] = array_shape(ELEMENT_TYPES[value.dtype], value.shape)
    count = len(found.graph.outputs) - len(found.touched)
    kept = [count + i for i, x in enumerate(found.touched) if x in changed]
    results = (*found.graph.outputs[:count], *[found.graph.outputs[i] for i in kept])
    shown = OpGraph(signature.name, (), found.graph.nodes, results)
    state = {count + i: variable_value(x) for i, x in enumerate(changed)}
    program = compile_graph(DOMAIN, shown, arguments, stateless.library, state)
    first = len(signature.inputs)
    given, made = [[x.name for x in y] for y in (signature.inputs, signature.outputs)]
    name_ends(program.module, [*given, *changed], [*made, *changed])
    return SavedModelProgram(
        program.module, signature, {first + i: values[x] for i, x in enumerate(changed)}
    )


def _inputs(signature: ModelSignature, shapes: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
    """The shapes of the inputs by their values; raises InputError, which names all open ones."""
    known = [x.name for x in signature.inputs]
    for name in shapes:
        if name not in known:
            hint = nearest(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise InputError(f"signature {signature.name!r} has no input {name!r}{hint}")
    found, missing = {}, []
    for given in signature.inputs:
        if not isinstance(given.kind, ElementType):
            raise UnsupportedOpError(f"input {given.name!r} is {given.kind}, which no array is")
        sizes = tuple(shapes[given.name]) if given.name in shapes else given.sizes
        if sizes is None or min(sizes, default=0) < 0:
            missing.append(given)
            continue
        fixed = given.sizes or sizes
        if len(sizes) != len(fixed) or any(
            n not in (-1, k) for n, k in zip(fixed, sizes, strict=True)
        ):
            raise InputError(f"input {given.name!r} takes {list(fixed)}, not {list(sizes)}")
        found[value_name(given.value)] = array_shape(given.kind, sizes)
    if missing:
        shown = "; ".join([f"{x.name} {list(x.sizes or ())}" for x in missing])
        example = ",".join([str(max(n, 1)) for n in missing[0].sizes or (1,)])
        raise InputError(f"sizes are open: {shown}; give them: --shape {missing[0].name}={example}")
    return found


def _needed(graph: OpGraph, given: Mapping[str, Any]) -> OpGraph:
    """The nodes that the outputs of a graph read from or wait for."""
    by_name = {x.name: x for x in graph.nodes}
    fed = {x.rpartition(":")[0] for x in given}
    waiting = [x.rpartition(":")[0] for x in graph.outputs]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name in fed or name not in by_name:
            continue
        seen.add(name)
        node = by_name[name]
        waiting += [x.rpartition(":")[0] for x in node.inputs if x]
        waiting += node.after
    nodes = tuple([x for x in graph.nodes if x.name in seen])
    return OpGraph(graph.name, graph.inputs, nodes, graph.outputs)


def _variables(
    folder: Path,
    graph: TensorFlowGraph,
    whole: OpGraph,
    library: Mapping[str, OpGraph],
    names: Sequence[str],
) -> dict[str, Array]:
    """The values of variables by name, each of the sizes that its handle has."""
    if not names:
        return {}
    bundle = CheckpointBundle(folder / "variables" / "variables")
    keys = VariableKeys(bundle, whole, library)
    declared = {}
    for node in whole.nodes:
        if node.op in HANDLES:
            declared[shared_name(node)] = node.attributes.get("shape")
    found = {}
    for name in names:
        found[name] = bundle.array(keys.key(name))
        sizes = tuple(declared.get(name) or found[name].shape)
        if min(sizes, default=0) >= 0 and sizes != found[name].shape:
            shape = list(found[name].shape)
            raise InputError(
                f"variable {name!r} takes {list(sizes)}, and the checkpoint has {shape}",
                file=str(folder / "variables"),
            )
    return found
