"""Programs written in JAX, from a file that registers them: their HLO, compiled or not.

The file is run as `python FILE --scale SCALE` would run it, up to the line that begins with
`if A.list:`. It fills `PROGS`, from names to dictionaries of `make` (from random inputs to a
function and its arguments), `x64`, `donate` and perhaps `tol`, the error allowed relative to
the greatest magnitude of a result; and it defines `R`, the random inputs of a name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import numpy as np

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import Array
from lowtide.ir.module import Module
from lowtide.records import dataclass

MEMORY_SCHEDULER: Final = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
"""The option by which XLA:CPU orders a program for little memory; it is not the default."""


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """What XLA:CPU made of a program: scheduled HLO, and the bytes of its temporaries."""

    text: str
    temp_bytes: int
    serialized_plan: bytes = field(repr=False)

    def module(self) -> Module:
        """Return the scheduled module."""
        return parse_hlo(self.text)


@dataclass(frozen=True, slots=True)
class JaxProgram:
    """A function of one device, and arguments for it."""

    name: str
    function: Callable[..., Any]
    tree: Sequence[Any]
    is_64_bit: bool
    donated: tuple[int, ...]
    tolerance: float = 0.0

    def arguments(self) -> list[Array]:
        """Return the arguments as arrays, those of trees one after the other."""
        import jax

        with jax.enable_x64(self.is_64_bit):
            return [np.asarray(leaf) for leaf in jax.tree.leaves(self.tree)]

    def module(self) -> Module:
        """Return the module before any optimization."""
        hlo = self._lowered().compiler_ir("hlo")
        return parse_hlo(hlo.as_hlo_text(print_large_constants=True))

    def compiled(self, options: Mapping[str, Any] | None = None) -> CompiledProgram:
        """Compile with XLA:CPU; `options` are those of XLA by name."""
        import jax

        with jax.enable_x64(self.is_64_bit):
            made = self._lowered().compile(compiler_options=dict(options or {}))
        memory = made.memory_analysis()
        (module,) = made.runtime_executable().hlo_modules()
        return CompiledProgram(
            module.to_string(), memory.temp_size_in_bytes, memory.serialized_buffer_assignment_proto
        )

    def expected(self, arguments: Sequence[Array] | None = None) -> list[Array]:
        """Return what XLA:CPU computes, by default of the own arguments: leaves in order."""
        import jax

        structure = jax.tree.structure(self.tree)
        leaves = self.arguments() if arguments is None else arguments
        with jax.enable_x64(self.is_64_bit):
            tree = jax.tree.unflatten(structure, [jax.numpy.array(x) for x in leaves])
            results = self._lowered().compile()(*tree)
            return [np.array(leaf) for leaf in jax.tree.leaves(results)]

    def _lowered(self) -> Any:
        import jax

        with jax.enable_x64(self.is_64_bit):
            tree = jax.tree.map(np.asarray, self.tree)
            jitted = jax.jit(self.function, donate_argnums=self.donated, keep_unused=True)
            return jitted.lower(*tree)


def jax_programs(path: Path, scale: str = "small") -> Iterator[JaxProgram]:
    """Return the programs of a file; needs jax."""
    source = path.read_text().split("\nif A.list:")[0]
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    with _arguments([str(path), "--scale", scale]):
        exec(compile(source, str(path), "exec"), names)
        for name, entry in names["PROGS"].items():
            function, tree = entry["make"](names["R"](name))
            donated, tolerance = tuple(entry["donate"]), entry.get("tol", 0.0)
            yield JaxProgram(name, function, tree, entry["x64"], donated, tolerance)


@contextmanager
def _arguments(wanted: list[str]) -> Iterator[None]:
    """Run the block with another command line."""
    saved, sys.argv = sys.argv, wanted
    try:
        yield
    finally:
        sys.argv = saved
