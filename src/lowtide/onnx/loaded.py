"""Models with their nodes: read, with their weights prepared, ready to be run and compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, final

import numpy as np

from lowtide.frontend.onnx.interface import ModelInterface
from lowtide.frontend.onnx.model import OnnxModel, load_model
from lowtide.frontend.onnx.tensors import RawPlace
from lowtide.ir.literal import Array
from lowtide.onnx.computed_weights import with_functions_computed
from lowtide.onnx.convolution_weights import with_kernels_prepared
from lowtide.onnx.integer_weights import with_integer_weights_prepared
from lowtide.onnx.known_models import keep_interface
from lowtide.onnx.matrix_weights import with_matrices_in_panels
from lowtide.onnx.model_bytes import ModelBytes
from lowtide.onnx.quantized_products import with_products_of_numbers
from lowtide.onnx.recurrent_weights import with_recurrent_weights_prepared
from lowtide.onnx.runner import Compile, GraphRunner
from lowtide.onnx.weights import with_weights_prepared
from lowtide.options import Options

if TYPE_CHECKING:
    from onnx import ModelProto


@final
class LoadedModel:
    """A model, what it shows, and what runs its nodes.

    Of `weights`, if they are given, it takes those that it has itself: no two processes of reading
    a model give different ones. Raises InputError and GraphError for what is no valid model.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | ModelProto,
        weights: Mapping[str, Array],
        compile_: Compile,
        most: int,
    ) -> None:
        found = load_model(source)
        moved = with_weights_prepared(with_functions_computed(found))
        moved = with_integer_weights_prepared(with_products_of_numbers(moved))
        moved = with_kernels_prepared(moved)
        model = with_matrices_in_panels(with_recurrent_weights_prepared(moved))
        self._raw = _raw_places(found, model)
        same = {name: weights.get(name, x) for name, x in model.initializers.items()}
        for x in same.values():
            if isinstance(x, np.ndarray):
                x.setflags(write=False)  # Callers may be given it in each run.
        self.model = replace(model, initializers=same)
        self.shown = interface_of(self.model)
        self.runner = GraphRunner(model.graph, compile_, same, most)

    def keep(self, source: ModelBytes, options: Options) -> str:
        """Keep what the model shows for other processes, and return the digest of its files.

        That is "" where it cannot be kept.
        """
        files = self.model.other_files
        return keep_interface(self.shown, self._raw, source, files, options)


def _raw_places(found: OnnxModel, prepared: OnnxModel) -> dict[str, RawPlace]:
    """Where the weights begin that are as they lie in a file."""
    weights = prepared.initializers
    return {
        name: place
        for name, place in found.places.items()
        if name in weights and weights[name] is found.initializers[name]
    }


def interface_of(model: OnnxModel) -> ModelInterface:
    """Return what a model shows; its weights are the same arrays."""
    return ModelInterface(
        model.name,
        model.inputs,
        model.outputs,
        model.overridable,
        model.metadata,
        model.labels,
        model.initializers,
    )
