"""Bindings of arrays to the inputs and outputs of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from lowtide.ir.errors import InputError
from lowtide.ir.literal import Array


@final
class IOBinding:
    """Arrays for the inputs of a session, and those that its outputs are written to."""

    def __init__(self) -> None:
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Array | None] = {}
        self._results: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Give an input."""
        self._inputs[name] = array

    def bind_output(self, name: str, array: Array | None = None) -> None:
        """Ask for an output, in an array that it is written to or in a new one."""
        self._outputs[name] = array

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs, and what they gave."""
        self._outputs.clear()
        self._results.clear()

    def inputs(self) -> dict[str, Any]:
        """Return the bound inputs."""
        return dict(self._inputs)

    def output_names(self) -> list[str]:
        """Return the outputs that are asked for, in order."""
        return list(self._outputs)

    def store(self, results: Mapping[str, Any]) -> None:
        """Take the results of a run; raises InputError where one does not fit its array."""
        for name, value in results.items():
            target = self._outputs[name]
            if target is None:
                self._results[name] = value
                continue
            if target.shape != value.shape or target.dtype != value.dtype:
                raise InputError(
                    f"output {name!r} is {value.dtype.name}{list(value.shape)}, but is bound to "
                    f"{target.dtype.name}{list(target.shape)}"
                )
            np.copyto(target, value)
            self._results[name] = target

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the results of the last run, in the order in which outputs were bound."""
        return [self._results[name] for name in self._outputs]
