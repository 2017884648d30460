"""Sessions: a model that is run on arrays by the names of its inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from onnx import ModelProto

from lowtide.client.executable.compiling import compile_module
from lowtide.evaluator import evaluate
from lowtide.frontend.onnx.model import OnnxModel, ValueType, load_model
from lowtide.ir import Module
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.ir.suggestions import nearest
from lowtide.onnx.binding import IOBinding
from lowtide.onnx.runner import GraphRunner, Program
from lowtide.onnx.values import Value, as_value
from lowtide.options import Options, options_with
from lowtide.records import dataclass
from lowtide.verifier import verify

ENGINES: Final = ("native", "reference")
"""What computes stretches: native code, or the evaluator."""


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: its name, its type as "tensor(float)", and its sizes.

    Sizes are numbers, names, or None where nothing is known of one.
    """

    name: str
    type: str
    shape: list[int | str | None]


@final
class InferenceSession:
    """A model that is compiled once for each set of shapes it is run with.

    `source` is a path, the bytes of a model, or a ModelProto. `memory`, in bytes or as text like
    "512MiB", limits what one compiled stretch needs beyond its arguments, `threads` how many run
    it; `options` are other fields of `Options`. The `engine` "reference" has modules computed by
    the evaluator, slowly. Raises InputError and GraphError for what is no valid model.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | ModelProto,
        memory: int | str | None = None,
        threads: int = 0,
        engine: str = "native",
        **options: Any,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine is one of {', '.join(ENGINES)}; found {engine!r}")
        given = {"memory": memory, "threads": threads, **options}
        self._options = options_with(Options(), given)
        self._model: OnnxModel = load_model(source)
        compile_ = self._compiled if engine == "native" else _evaluated
        self._runner = GraphRunner(self._model.graph, compile_, self._model.initializers)

    def _compiled(self, module: Module) -> Program:
        verify(module)
        return compile_module(module, self._options)

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that have to be fed."""
        return [_node_arg(x) for x in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return [_node_arg(x) for x in self._model.outputs]

    def io_binding(self) -> IOBinding:
        """Return an empty binding of arrays to inputs and outputs."""
        return IOBinding()

    def run_with_iobinding(self, binding: IOBinding) -> None:
        """Run on the bound inputs; bound outputs are filled, others come as new arrays."""
        names = binding.output_names()
        binding.store(dict(zip(names, self.run(names, binding.inputs()), strict=True)))

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Value]:
        """Return the named outputs, None for all, of the model on `feeds` by input names.

        Raises InputError for feeds and names that do not fit the model.
        """
        outputs = [x.name for x in self._model.outputs]
        for name in names or ():
            if name not in outputs:
                raise InputError(f"Invalid Output Name: {name!r}{nearest(name, outputs)}")
        values = self._checked(feeds)
        found = dict(zip(outputs, self._runner.run(values), strict=True))
        return [found[x] for x in (outputs if names is None else names)]

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Value]:
        by_name = {x.name: x for x in self._model.inputs}
        known = [*by_name, *self._model.initializers]
        for name in feeds:
            if name not in by_name and name not in self._model.initializers:
                raise InputError(f"Invalid Feed Input Name: {name!r}{nearest(name, known)}")
        missing = [x for x in by_name if x not in feeds]
        if missing:
            raise InputError(
                f"Required inputs ({missing}) are missing from input feed ({list(feeds)})"
            )
        values = {name: as_value(value) for name, value in feeds.items()}
        sizes: dict[str, int] = {}
        for name, expected in by_name.items():
            _check(values[name], expected, sizes)
        return values


def _check(value: Value, expected: ValueType, sizes: dict[str, int]) -> None:
    """Raise InputError for a value of another type; `sizes` are those of named dimensions."""
    if expected.kind != "tensor":
        return
    wanted = None if expected.element_type is None else DTYPES[expected.element_type]
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"input {expected.name!r} has to be an array, found {type(value).__name__}"
        )
    if wanted is not None and value.dtype != wanted:
        raise InputError(
            f"Unexpected input data type for {expected.name!r}. Actual: {value.dtype.name}, "
            f"expected: {wanted.name}"
        )
    if expected.sizes is None:
        return
    if value.ndim != len(expected.sizes):
        raise InputError(
            f"Invalid rank for input: {expected.name}. Got: {value.ndim} Expected: "
            f"{len(expected.sizes)}"
        )
    for index, (size, given) in enumerate(zip(value.shape, expected.sizes, strict=True)):
        known = sizes.setdefault(given, size) if isinstance(given, str) else given
        if known is not None and known != size:
            raise InputError(
                f"Got invalid dimensions for input: {expected.name} for the following indices: "
                f"index: {index} Got: {size} Expected: {known}"
            )


_NAMES: Final = {"float32": "float", "float64": "double", "object": "string"}


def _node_arg(value: ValueType) -> NodeArg:
    if value.kind != "tensor":
        return NodeArg(value.name, value.kind, [])
    name = "object" if value.element_type is None else DTYPES[value.element_type].name
    return NodeArg(value.name, f"tensor({_NAMES.get(name, name)})", list(value.sizes or ()))


def _evaluated(module: Module) -> Program:
    def run(*arguments: Any) -> Any:
        return evaluate(module, list(arguments))

    return run
