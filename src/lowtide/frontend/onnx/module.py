"""Modules of whole models, for sizes that are known."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import lowtide.frontend.onnx.kernels  # noqa: F401, has them in the table.
from lowtide.frontend.graphs.compiler import compile_graph
from lowtide.frontend.graphs.graph import GraphError, OpGraph
from lowtide.frontend.onnx.model import OnnxModel, load_model
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.sizes import Shapes, Sizes, input_sizes
from lowtide.ir import Module, Shape, array_shape
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError
from lowtide.ir.literal import Array

if TYPE_CHECKING:
    from onnx import ModelProto


def read_module(
    source: str | os.PathLike[str] | bytes | ModelProto,
    sizes: Sizes | None = None,
    shapes: Shapes | None = None,
) -> Module:
    """Return the module of a model.

    `sizes` are those of dimensions that have names, `shapes` those of whole inputs. Initializers
    are constants. Raises InputError for what is no model and for sizes that are not known, do not
    fit or have no dimension; GraphError and UnsupportedOpError, with the nodes, for what no module
    can compute.
    """
    file = os.fspath(source) if isinstance(source, str | os.PathLike) else "<model>"
    return module_of(load_model(source), sizes, shapes, file)


def module_of(
    model: OnnxModel,
    sizes: Sizes | None = None,
    shapes: Shapes | None = None,
    file: str = "<model>",
) -> Module:
    """Return the module of a model that is read; raises as `read_module`."""
    try:
        arguments = _arguments(model, sizes or {}, shapes or {})
        return compile_graph(DOMAIN, _without_maps(model.graph), arguments).module
    except UnsupportedOpError as error:
        raise UnsupportedOpError(f"{file}: {error}; {_HOST}") from error
    except LowtideError as error:
        raise InputError(str(error), file=file) from error


def _without_maps(graph: OpGraph) -> OpGraph:
    """A graph that gives scores as arrays, a column for each class, where it names them by class.

    Classifiers of scikit-learn end so; a module has no maps.
    """
    maps = {
        x.outputs[0]: x.inputs[0]
        for x in graph.nodes
        if x.op == _MAP and len(x.inputs) == len(x.outputs) == 1
    }
    nodes = [x for x in graph.nodes if x.op != _MAP or x.outputs[0] not in maps]
    return replace(
        graph, nodes=tuple(nodes), outputs=tuple([maps.get(x, x) for x in graph.outputs])
    )


_MAP: Final = "ai.onnx.ml.ZipMap"

_HOST = "lowtide.onnx.InferenceSession runs what has no module on the host"


def _arguments(model: OnnxModel, sizes: Sizes, shapes: Shapes) -> dict[str, Shape | Array]:
    found: dict[str, Shape | Array] = {}
    dimensions = input_sizes(model.inputs, sizes, shapes)
    for value in model.inputs:
        if value.element_type is None:
            raise GraphError(f"input {value.name!r} is text, which no module takes; {_HOST}")
        found[value.name] = array_shape(value.element_type, dimensions[value.name])
    return {**found, **model.initializers}
