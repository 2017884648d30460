"""Graphs that are compiled once for each signature, as by TensorFlow's XlaCompilationCache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, final

import numpy as np

from lowtide.client.compilation_cache import CacheStatistics, CompilationCache, signature
from lowtide.client.library import LocalClient, LocalExecutable
from lowtide.frontend.graphs.compiler import GraphProgram
from lowtide.ir import Shape, array_shape
from lowtide.ir.literal import ELEMENT_TYPES, Array
from lowtide.options import Options
from lowtide.records import dataclass

Arguments: TypeAlias = Mapping[str, Shape | Array]
"""Values by name: those given by shape are parameters, arrays are constants of the program."""


@dataclass(frozen=True, eq=False, slots=True)
class CompiledGraph:
    """The program of a graph, and what runs it."""

    program: GraphProgram
    executable: LocalExecutable


@final
class CompiledGraphs:
    """The graphs that a client has compiled."""

    def __init__(self, client: LocalClient, capacity: int = 1024) -> None:
        self._client = client
        self._cache: CompilationCache[CompiledGraph] = CompilationCache(capacity)

    def compile(
        self,
        name: str,
        arguments: Arguments,
        build: Callable[[Arguments], GraphProgram],
        options: Options | None = None,
    ) -> CompiledGraph:
        """Return the graph `name` compiled for arguments, by `build` where it is not yet.

        Two graphs of one name have to be the same. Raises what `build` and the client raise.
        """
        chosen = options or Options()
        values = list(arguments.values())
        constants = {i: np.asarray(x) for i, x in enumerate(values) if not isinstance(x, Shape)}
        shapes = [x if isinstance(x, Shape) else _shape_of(x) for x in values]
        key = signature(name, shapes, constants, (tuple(arguments), chosen))

        def compile_() -> CompiledGraph:
            program = build(arguments)
            return CompiledGraph(program, self._client.compile(program.module, options=chosen))

        return self._cache.get_or_compile(key, compile_)

    @property
    def statistics(self) -> CacheStatistics:
        """What was compiled, found and dropped."""
        return self._cache.statistics


def _shape_of(value: Array) -> Shape:
    array = np.asarray(value)
    return array_shape(ELEMENT_TYPES[array.dtype], array.shape)
