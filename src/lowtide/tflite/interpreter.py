"""The interpreter of TFLite models: inputs are set, the model runs, outputs are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from lowtide.client.executable import Executable, compile_module
from lowtide.frontend.tflite.compiling import LiteProgram, compile_tflite
from lowtide.frontend.tflite.constants import array_of
from lowtide.frontend.tflite.model import LiteModel, LiteSignature, LiteTensor, read_tflite
from lowtide.frontend.tflite.node import ELEMENT_TYPES
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES, Array
from lowtide.options import Options
from lowtide.suggestions import nearest

_NO_SCALE: Final = (0.0, 0)


@final
class LiteInterpreter:
    """A TFLite model, compiled when its tensors are allocated.

    Give the path or the content of the file. What variables hold lasts from one call to the next.
    Raises InputError for a file that is malformed or cannot be read.
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
            model_content = _content(model_path)
        self._model: LiteModel = read_tflite(bytes(model_content), model_path or "")
        self._runner = _Runner(self._model, 0, num_threads or 0)
        self._signed: dict[str, SignatureRunner] = {}
        self._threads = num_threads or 0

    def allocate_tensors(self) -> None:
        """Compile the model; raises UnsupportedOpError for operators without a kernel."""
        self._runner.compile()

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Give an input another shape, for which the model is compiled anew.

        Raises InputError for what is no input or, if `strict`, for a size that may not change.
        """
        tensor = self._runner.input(input_index)
        sizes = tuple([int(x) for x in tensor_size])
        fixed = zip(tensor.signature, sizes, strict=False)
        is_other = len(tensor.signature) != len(sizes) or any(n not in (-1, k) for n, k in fixed)
        if min(sizes, default=0) < 0 or (strict and is_other):
            raise InputError(
                f"tensor {input_index} ({tensor.name}) takes {list(tensor.signature)}, "
                f"not {list(sizes)}"
            )
        self._runner.resize(input_index, sizes)

    def get_input_details(self) -> list[dict[str, Any]]:
        """Return what is known of each input: name, index, shape, dtype and quantization."""
        return [self._details(x) for x in self._model.main.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """Return what is known of each output, as for inputs."""
        return [self._details(x) for x in self._model.main.outputs]

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Return the names of inputs and outputs of each signature."""
        return {
            x.key: {"inputs": sorted(x.inputs), "outputs": sorted(x.outputs)}
            for x in self._model.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Return a function of a signature's inputs by name, the only one without a key.

        Raises InputError for an unknown key.
        """
        known = {x.key: x for x in self._model.signatures}
        if signature_key is None and len(known) == 1:
            (signature_key,) = known
        if signature_key not in known:
            shown = ", ".join(sorted(known)) or "none"
            hint = nearest(signature_key or "", known)
            raise InputError(f"no signature {signature_key!r}{hint}; there are: {shown}")
        if signature_key not in self._signed:
            found = known[signature_key]
            runner = self._runner if not found.graph else None
            runner = runner or _Runner(self._model, found.graph, self._threads)
            self._signed[signature_key] = SignatureRunner(found, runner)
        return self._signed[signature_key]

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Set an input by its index; raises InputError for another shape or type."""
        self._runner.set(tensor_index, value)

    def invoke(self) -> None:
        """Run the model on the inputs that are set; raises InputError before they are."""
        self._runner.run()

    def reset_all_variables(self) -> None:
        """Let variables hold again what they held before the first call."""
        self._runner.reset()

    def get_tensor(self, tensor_index: int) -> Array:
        """Return a copy of an input, an output or a constant; raises InputError for others."""
        return self._runner.get(tensor_index)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """Return a function that returns a copy of a tensor, as `get_tensor`."""
        return lambda: self.get_tensor(tensor_index)

    @property
    def memory(self) -> Any:
        """The memory report of the program; raises InputError before it is compiled."""
        return self._runner.executable("asking for its memory").memory

    def _details(self, number: int) -> dict[str, Any]:
        tensor = self._model.main.tensors[number]
        found = tensor.quantization
        zeros = np.broadcast_to(found.zero_points.astype(np.int32), found.scales.shape)
        one = (float(found.scales[0]), int(zeros[0])) if len(found.scales) == 1 else _NO_SCALE
        return {
            "name": tensor.name,
            "index": number,
            "shape": np.array(self._runner.sizes(number), np.int32),
            "shape_signature": np.array(tensor.signature, np.int32),
            "dtype": _dtype(tensor).type,
            "quantization": one,
            "quantization_parameters": {
                "scales": np.array(found.scales),
                "zero_points": np.array(zeros),
                "quantized_dimension": found.axis,
            },
            "sparsity_parameters": {},
        }


@final
class SignatureRunner:
    """A signature as a function: keyword arguments by its names, and a dictionary of results."""

    def __init__(self, signature: LiteSignature, runner: _Runner) -> None:
        self._signature, self._runner = signature, runner

    def __call__(self, **arguments: Any) -> dict[str, Array]:
        """Return the outputs by name; raises InputError for missing and for unknown names."""
        known = self._signature.inputs
        for name in arguments:
            if name not in known:
                raise InputError(
                    f"{self._signature.key!r} has no input {name!r}{nearest(name, known)}"
                )
        missing = [x for x in known if x not in arguments]
        if missing:
            raise InputError(f"{self._signature.key!r} needs {', '.join(missing)}")
        self._runner.compile()
        for name, value in arguments.items():
            self._runner.set(known[name], value)
        self._runner.run()
        return {x: self._runner.get(y) for x, y in self._signature.outputs.items()}


@final
class _Runner:
    """A subgraph with its program, the values of its tensors and what its variables hold."""

    def __init__(self, model: LiteModel, number: int, threads: int) -> None:
        self._model, self._number, self._threads = model, number, threads
        self._graph = model.graphs[number]
        self._program: LiteProgram | None = None
        self._executable: Executable | None = None
        self._values: dict[int, Array] = {}
        self._state: list[Any] = []
        self._shapes: dict[int, tuple[int, ...]] = {}

    def compile(self) -> None:
        """Compile the subgraph, once for the shapes of its inputs."""
        if self._executable is None:
            self._program = compile_tflite(self._model, self._number, self._shapes)
            options = Options(threads=self._threads)
            self._executable = compile_module(self._program.module, options)
            self.reset()

    def executable(self, purpose: str) -> Executable:
        """The program; raises InputError where it is not compiled."""
        if self._executable is None:
            raise InputError(f"call allocate_tensors() before {purpose}")
        return self._executable

    def resize(self, number: int, sizes: tuple[int, ...]) -> None:
        """Give an input another shape."""
        if sizes != self.sizes(number):
            self._shapes[number] = sizes
            self._values.pop(number, None)
            self._executable = None

    def sizes(self, number: int) -> tuple[int, ...]:
        """The shape of a tensor: of outputs that which the program gives."""
        if self._program is not None and self._executable is not None:
            shapes = self._program.module.entry.root.shape.tuple_shapes
            for output, shape in zip(self._graph.outputs, shapes, strict=False):
                if output == number:
                    return shape.dimensions
        return self._shapes.get(number, self._graph.tensors[number].shape)

    def input(self, number: int) -> LiteTensor:
        """An input; raises InputError for any other tensor."""
        if number not in self._graph.inputs:
            shown = list(self._graph.inputs)
            raise InputError(f"tensor {number} is no input; these are {shown}")
        return self._graph.tensors[number]

    def set(self, number: int, value: Any) -> None:
        """Set an input; raises InputError for another shape or type."""
        tensor, array = self.input(number), np.asarray(value)
        sizes = self.sizes(number)
        if array.shape != sizes or array.dtype != _dtype(tensor):
            raise InputError(
                f"tensor {number} ({tensor.name}) is {_dtype(tensor).name}{list(sizes)}, "
                f"not {array.dtype.name}{list(array.shape)}"
            )
        self._values[number] = np.array(array)

    def run(self) -> None:
        """Run the program on what is set and held."""
        executable, values, graph = self.executable("invoke()"), self._values, self._graph
        try:
            given = [values[x] for x in graph.inputs]
        except KeyError as error:
            name = graph.tensors[error.args[0]].name
            raise InputError(f"tensor {error.args[0]} ({name}) is not set") from None
        found = executable(*given, *self._state)
        values.update(zip(graph.outputs, found, strict=False))
        if self._state:
            self._state = [*found[len(graph.outputs) :]]

    def reset(self) -> None:
        """Let variables hold what they held before the first call."""
        if self._program is not None:
            self._state = [np.array(x.value) for x in self._program.state]

    def get(self, number: int) -> Array:
        """A copy of an input, an output or a constant; raises InputError for others."""
        if number in self._values:
            return np.array(self._values[number])
        tensors = self._graph.tensors
        if 0 <= number < len(tensors) and tensors[number].data is not None:
            return np.array(array_of(tensors[number]))
        raise InputError(
            f"tensor {number} has no value: only inputs, constants and, after invoke(), "
            "outputs have"
        )


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error


def _dtype(tensor: LiteTensor) -> np.dtype[Any]:
    kind = ELEMENT_TYPES.get(tensor.type)
    if kind is None:
        raise InputError(f"tensor {tensor.number} ({tensor.name}) is {tensor.type}: no array")
    return DTYPES[kind]
