"""Calls with whole arrays of programs that lowtide partitioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from lowtide.client.executable.device_parts import DeviceParts
from lowtide.client.executable.on_devices import on_threads
from lowtide.evaluator.values import value_leaves
from lowtide.runtime.cpu.program import NativeProgram, nested


@final
class WholeArrayCalls:
    """A function of whole arrays: it cuts them, runs `call` for each device, and joins results.

    `call` runs `program`, that of one device.
    """

    def __init__(
        self, parts: DeviceParts, program: NativeProgram, call: Callable[..., Any]
    ) -> None:
        self.parts = parts
        self._program = program
        self._call = call

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the whole results; no argument is written to, with `consume` neither.

        Raises InputError where an argument does not fit, and what `run_on_devices` raises.
        """
        tiles = self.parts.dealt(arrays)
        found = on_threads(self._program, self._call, tiles)
        whole = self.parts.whole([value_leaves(x) for x in found])
        return nested(self._program.interface.structure, whole)
