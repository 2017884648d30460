"""Modules compiled and run by JAX's CPU client in this process, to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from time import perf_counter
from typing import Any, Final, final

import numpy as np

from lowtide.autopsy.plain_module import plain_module
from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.ir import Module, Opcode
from lowtide.ir.literal import Array

_OPTIMIZED: Final = frozenset({Opcode.BITCAST, Opcode.FUSION})
"""Operations that XLA takes from nobody but its own passes."""


def needed_bytes(stats: Any) -> int:
    """Return what XLA plans beyond arguments: temporaries, and outputs that overwrite none.

    `stats` is what JAX's `memory_analysis()` of a compiled program is.
    """
    return int(stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes)


@final
class XlaProgram:
    """A module as XLA:CPU compiles it. Its arguments and results stay in memory of the client.

    `compile_seconds` is the wall time of XLA alone, `needed_bytes` what it plans beyond arguments:
    temporaries, and outputs that overwrite none. Raises what jaxlib raises.
    """

    def __init__(self, module: Module) -> None:
        jax = import_module("jax")
        hlo, jaxlib = import_module("jaxlib._hlo"), import_module("jaxlib._jax")
        jax.config.update("jax_platforms", "cpu")
        parsed = hlo.HloModule.from_serialized_hlo_module_proto(
            write_hlo_module_proto(_to_compile(module))
        )
        computation = hlo.XlaComputation(parsed.as_serialized_hlo_module_proto())
        mlir = jaxlib.mlir.xla_computation_to_mlir_module(computation)
        device = jax.devices("cpu")[0]
        start = perf_counter()
        self._loaded = device.client.compile_and_load(
            mlir, jaxlib.DeviceList((device,)), jaxlib.CompileOptions()
        )
        self.compile_seconds = perf_counter() - start
        self.needed_bytes = needed_bytes(self._loaded.get_compiled_memory_stats())
        self._jax = jax
        self._given: list[Any] = []

    def take(self, arguments: Sequence[Any]) -> None:
        """Put arguments into the client's memory, for the calls that follow."""
        with self._jax.enable_x64(True):
            self._given = [self._jax.device_put(np.array(x)) for x in arguments]

    def __call__(self) -> list[Any]:
        """Run on what was taken; return the results once they are there."""
        results: list[Any] = self._loaded.execute(self._given)
        for x in results:
            x.block_until_ready()
        return results

    def results(self) -> list[Array]:
        """Run, and return the results as arrays."""
        return [np.asarray(x) for x in self()]


def _to_compile(module: Module) -> Module:
    """The module as XLA takes it."""
    instructions = [x for c in module.computations.values() for x in c.instructions.values()]
    optimized = any(x.opcode in _OPTIMIZED for x in instructions)
    return plain_module(module) if optimized or module.is_scheduled else module
