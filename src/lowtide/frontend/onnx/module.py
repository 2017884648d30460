"""Modules of whole models, for sizes that are known."""

from __future__ import annotations

import os
from collections.abc import Mapping

from onnx import ModelProto

from lowtide.frontend.graphs.compiler import compile_graph
from lowtide.frontend.graphs.errors import GraphError
from lowtide.frontend.onnx.model import OnnxModel, load_model, sizes_with
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir import Module, Shape, array_shape
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.ir.suggestions import nearest


def read_module(
    source: str | os.PathLike[str] | bytes | ModelProto, sizes: Mapping[str, int] | None = None
) -> Module:
    """Return the module of a model; `sizes` are those of dimensions that have names.

    Initializers are constants. Raises InputError for what is no model and for a size that is not
    known or has no dimension, GraphError and UnsupportedOpError, with the node, for what no module
    can compute.
    """
    file = os.fspath(source) if isinstance(source, str | os.PathLike) else "<model>"
    model = load_model(source)
    try:
        arguments = _arguments(model, sizes or {})
        return compile_graph(DOMAIN, model.graph, arguments).module
    except UnsupportedOpError as error:
        raise UnsupportedOpError(f"{file}: {error}; {_HOST}") from error
    except LowtideError as error:
        raise InputError(str(error), file=file) from error


_HOST = "lowtide.onnx.InferenceSession runs what has no module on the host"


def _arguments(model: OnnxModel, sizes: Mapping[str, int]) -> dict[str, Shape | Array]:
    names = dict.fromkeys([x for y in model.inputs for x in y.sizes or () if isinstance(x, str)])
    for name in sizes:
        if name not in names:
            raise GraphError(f"no dimension is called {name!r}{nearest(name, names)}")
    found: dict[str, Shape | Array] = {}
    for value in model.inputs:
        dimensions = sizes_with(value, sizes)
        if value.element_type is None:
            raise GraphError(f"input {value.name!r} is text, which no module takes; {_HOST}")
        found[value.name] = array_shape(value.element_type, tuple(dimensions))
    return {**found, **model.initializers}
