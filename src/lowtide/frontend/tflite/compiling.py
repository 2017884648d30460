"""From a TFLite model to a module: its operators as nodes of a graph, which kernels build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import numpy as np

from lowtide.evaluator import evaluate
from lowtide.frontend.graphs.compiler import compile_graph, name_ends
from lowtide.frontend.graphs.graph import OpGraph
from lowtide.frontend.graphs.registry import op_names
from lowtide.frontend.tflite.constants import array_of, shape_of
from lowtide.frontend.tflite.model import LiteModel
from lowtide.frontend.tflite.node import DOMAIN, ELEMENT_TYPES
from lowtide.frontend.tflite.quantized import zero_of
from lowtide.frontend.tflite.translation import (
    LiteStatelessGraph,
    StateTensor,
    Translation,
    value_name,
)
from lowtide.ir import InputError, Module, Shape, array_shape
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.literal import ELEMENT_TYPES as ARRAY_TYPES
from lowtide.records import dataclass
from lowtide.suggestions import nearest

_KERNELS: Final = """
arithmetic comparing control elementwise indexing landmarks movement networks pooling
post_processing recurrent reductions resizing shapes slicing softmax spectra stablehlo
stablehlo_applied transposed
"""


@dataclass(frozen=True, eq=False, slots=True)
class LiteState:
    """A value that lasts from one call to the next, and what it is before the first."""

    name: str
    value: Array


@dataclass(frozen=True, eq=False, slots=True)
class LiteProgram:
    """The module of a subgraph.

    Its parameters are the inputs, in order, and then the state; its results are the outputs, and
    then the state as it is left, which may be written over that which was given.
    """

    module: Module
    state: tuple[LiteState, ...]


def compile_tflite(
    model: LiteModel, number: int = 0, shapes: Mapping[int, Sequence[int]] | None = None
) -> LiteProgram:
    """Return the program of a subgraph, the first one unless another is given.

    `shapes` are those of inputs, by tensor, that have others than the file says. Raises
    UnsupportedOpError for operators without a kernel, all of them, and types that no array has;
    GraphError for what is wrong with one, which it names; InputError for damaged subgraphs.
    """
    for name in _KERNELS.split():
        import_module(f"lowtide.frontend.tflite.{name}")
    translation = Translation(model)
    found = translation.graph(number)
    starts = [translation.graph(x) for x in translation.once]
    _check_kernels(model, [x.graph for x in (found, *starts)])
    constants = _constants(model)
    held = {x: _start(model, y) for x, y in translation.variables.items()}
    for start in starts:
        held |= _after(start, constants, held)
    arguments: dict[str, Shape | Array] = {**constants, **_inputs(model, number, shapes or {})}
    arguments |= {x: _shape_like(held[x]) for x in found.variables}
    first = len(found.graph.outputs) - len(found.variables)
    state = {first + i: x for i, x in enumerate(found.variables)}
    program = compile_graph(DOMAIN, found.graph, arguments, None, state)
    lite = model.graphs[number]
    given, made = [[lite.tensors[x].name for x in y] for y in (lite.inputs, lite.outputs)]
    name_ends(program.module, [*given, *found.variables], [*made, *found.variables])
    return LiteProgram(program.module, tuple([LiteState(x, held[x]) for x in found.variables]))


def _start(model: LiteModel, variable: StateTensor) -> Array:
    """What a variable holds before anything is assigned: zeros.

    TFLite lets state of signed bytes begin with its zero point, and all other with the number 0.
    """
    tensor = model.graphs[variable.graph].tensors[variable.tensor]
    is_state = tensor.is_variable and tensor.type == "INT8"
    first = zero_of(tensor) if is_state else 0
    return np.full(tensor.shape, first, DTYPES[shape_of(tensor).element_type])


def _shape_like(array: Array) -> Shape:
    return array_shape(ARRAY_TYPES[array.dtype], array.shape)


def _after(
    start: LiteStatelessGraph, constants: Mapping[str, Array], held: Mapping[str, Array]
) -> dict[str, Array]:
    """What variables hold after a subgraph that runs once, which is evaluated here."""
    names = start.variables
    arguments: dict[str, Shape | Array] = {**constants}
    arguments |= {x: _shape_like(held[x]) for x in names}
    module = compile_graph(DOMAIN, start.graph, arguments).module
    results = evaluate(module, [held[x] for x in names])
    assert isinstance(results, tuple)
    values = [x for x in results if isinstance(x, np.ndarray)]
    return dict(zip(names, values[len(values) - len(names) :], strict=True))


def _constants(model: LiteModel) -> dict[str, Array]:
    """The constants of all subgraphs by the names of their values."""
    found = {}
    for number, graph in enumerate(model.graphs):
        made = {y for x in graph.operators for y in x.outputs} | {*graph.inputs}
        for tensor in graph.tensors:
            is_empty = not tensor.is_variable and tensor.number not in made and 0 in tensor.shape
            is_given = tensor.data is not None and tensor.number not in graph.inputs
            if (is_given or is_empty) and tensor.type in ELEMENT_TYPES:
                found[value_name(number, tensor.number)] = array_of(tensor)
    return found


def _inputs(model: LiteModel, number: int, shapes: Mapping[int, Sequence[int]]) -> dict[str, Shape]:
    """The shapes of the inputs of a subgraph, by the names of their values."""
    graph = model.graphs[number]
    if min(graph.outputs, default=0) < 0:
        position = f"model.subgraphs[{number}].outputs"
        raise InputError("an output is left out", file=model.file, position=position)
    found = {}
    for tensor in [graph.tensors[x] for x in graph.inputs if x >= 0]:
        shape = shape_of(tensor)
        sizes = tuple(shapes.get(tensor.number, tensor.shape))
        found[value_name(number, tensor.number)] = array_shape(shape.element_type, sizes)
    return found


def _check_kernels(model: LiteModel, graphs: Sequence[OpGraph]) -> None:
    """Raise UnsupportedOpError, which names all operators that there is no kernel for."""
    known = op_names(DOMAIN)
    missing: dict[str, list[str]] = {}
    waiting = list(graphs)
    while waiting:
        for node in waiting.pop().nodes:
            waiting += [x for x in node.attributes.values() if isinstance(x, OpGraph)]
            if node.op not in known:
                missing.setdefault(node.op, []).append(node.name)
    if missing:
        shown = [f"{x} ({_places(y)}){nearest(x, known)}" for x, y in sorted(missing.items())]
        text = f"there is no kernel for {'; '.join(shown)}"
        raise UnsupportedOpError(f"{model.file}: {text}" if model.file else text)


def _places(names: Sequence[str]) -> str:
    more = len(names) - 1
    return f"{names[0]} and {more} more" if more else names[0]
