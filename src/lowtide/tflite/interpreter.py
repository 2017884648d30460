"""The interpreter of TFLite models: inputs are set, the model runs, outputs are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, final

import numpy as np

from lowtide.client.executable import Executable, compile_module
from lowtide.frontend.tflite.compiling import compile_tflite
from lowtide.frontend.tflite.model import LiteModel, LiteTensor, read_tflite
from lowtide.frontend.tflite.node import ELEMENT_TYPES
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES, Array
from lowtide.options import Options

_NO_SCALE: Final = (0.0, 0)


@final
class LiteInterpreter:
    """A TFLite model, compiled when its tensors are allocated.

    Give the path or the content of the file. Raises InputError for a malformed one.
    """

    def __init__(
        self,
        model_path: str | None = None,
        model_content: bytes | None = None,
        num_threads: int | None = None,
    ) -> None:
        if (model_path is None) == (model_content is None):
            raise InputError("give one of model_path and model_content")
        if model_content is None:
            assert model_path is not None
            model_content = Path(model_path).read_bytes()
        self._model: LiteModel = read_tflite(bytes(model_content), model_path or "")
        self._threads = num_threads or 0
        self._executable: Executable | None = None
        self._values: dict[int, Array] = {}

    def allocate_tensors(self) -> None:
        """Compile the model; raises UnsupportedOpError for an operator without a kernel."""
        if self._executable is None:
            program = compile_tflite(self._model)
            self._executable = compile_module(program.module, Options(threads=self._threads))

    def get_input_details(self) -> list[dict[str, Any]]:
        """Return what is known of each input: name, index, shape, dtype and quantization."""
        return [self._details(x) for x in self._model.main.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """Return what is known of each output, as for inputs."""
        return [self._details(x) for x in self._model.main.outputs]

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Set an input by its index; raises InputError for another shape or type."""
        if tensor_index not in self._model.main.inputs:
            raise InputError(
                f"tensor {tensor_index} is no input; these are {list(self._model.main.inputs)}"
            )
        tensor = self._model.main.tensors[tensor_index]
        array = np.asarray(value)
        if array.shape != tensor.shape or array.dtype != _dtype(tensor):
            raise InputError(
                f"tensor {tensor_index} ({tensor.name}) is {_dtype(tensor).name}"
                f"{list(tensor.shape)}, not {array.dtype.name}{list(array.shape)}"
            )
        self._values[tensor_index] = np.array(array)

    def invoke(self) -> None:
        """Run the model on the inputs that are set; raises InputError before they are."""
        if self._executable is None:
            raise InputError("call allocate_tensors() before invoke()")
        graph = self._model.main
        missing = [x for x in graph.inputs if x not in self._values]
        if missing:
            raise InputError(f"tensor {missing[0]} ({graph.tensors[missing[0]].name}) is not set")
        found = self._executable(*[self._values[x] for x in graph.inputs])
        self._values |= dict(zip(graph.outputs, found, strict=True))

    def get_tensor(self, tensor_index: int) -> Array:
        """Return a copy of an input, an output or a constant; raises InputError for others."""
        if tensor_index in self._values:
            return np.array(self._values[tensor_index])
        tensors = self._model.main.tensors
        if 0 <= tensor_index < len(tensors):
            tensor = tensors[tensor_index]
            if tensor.data is not None:
                return np.frombuffer(tensor.data.tobytes(), _dtype(tensor)).reshape(tensor.shape)
        raise InputError(
            f"tensor {tensor_index} has no value: only inputs, constants and, after invoke(), "
            "outputs have"
        )

    @property
    def memory(self) -> Any:
        """The memory report of the program; raises InputError before it is compiled."""
        if self._executable is None:
            raise InputError("call allocate_tensors() before asking for its memory")
        return self._executable.memory

    def _details(self, number: int) -> dict[str, Any]:
        tensor = self._model.main.tensors[number]
        found = tensor.quantization
        zeros = found.zero_points.astype(np.int32)
        one = (float(found.scales[0]), int(zeros[0])) if len(found.scales) == 1 else _NO_SCALE
        return {
            "name": tensor.name,
            "index": number,
            "shape": np.array(tensor.shape, np.int32),
            "shape_signature": np.array(tensor.shape, np.int32),
            "dtype": _dtype(tensor).type,
            "quantization": one,
            "quantization_parameters": {
                "scales": np.array(found.scales),
                "zero_points": zeros,
                "quantized_dimension": found.axis,
            },
            "sparsity_parameters": {},
        }


def _dtype(tensor: LiteTensor) -> np.dtype[Any]:
    kind = ELEMENT_TYPES.get(tensor.type)
    if kind is None:
        raise InputError(f"tensor {tensor.number} ({tensor.name}) is {tensor.type}: no array")
    return DTYPES[kind]
