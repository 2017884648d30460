"""The function that a program was made from: its name, its first line, and what compiled it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from lowtide.ir import Module, SourceLocation
from lowtide.records import dataclass
from lowtide.report.blame import is_library, user_frames

_PREFIXES: Final = ("jit_", "pjit_", "pmap_")
"""What JAX puts before the name of a function to name its module."""


@dataclass(frozen=True, slots=True)
class JitDecorator:
    """What compiles a function, as users import it.

    `file` ends the path of the file whose call stands right around the function; JAX leaves its own
    calls out. With `names_arguments` it takes `donate_argnames`, as `jax.jit` does. `arrays` is
    what tells, of a leaf `x` of an argument, that it is an array of numbers, "" where all are.
    """

    name: str
    file: str
    names_arguments: bool = True
    arrays: str = ""

    def donating(self, function: str, names: Sequence[str]) -> str:
        """Return what to write so that arguments are donated."""
        if self.names_arguments:
            return f"{self.name}({function}, donate_argnames={json.dumps(list(names))})"
        return f'{self.name}({function}, donate="all-except-first")  # first: what stays'

    def within(self, function: str, nbytes: int) -> str:
        """Return what to write so that the program is planned within a budget."""
        if self.names_arguments:
            return f'lowtide.jit({function}, memory="{nbytes}B")'
        options = f'compiler_options={{"memory": "{nbytes}B"}}'
        return f"{self.name}({function}, {options})  # JAX_PLATFORMS=lowtide"


JAX_JIT: Final = JitDecorator("jax.jit", "")
_OTHERS: Final = (
    JitDecorator("nnx.jit", "/flax/nnx/transforms/compilation.py"),
    JitDecorator("eqx.filter_jit", "/equinox/_jit.py", False, "eqx.is_inexact_array(x)"),
)


@dataclass(frozen=True, slots=True)
class EntryFunction:
    """The function of a program: `name` is `f` where that is not known, `source` may be None."""

    name: str
    source: SourceLocation | None
    decorator: JitDecorator = JAX_JIT


def entry_function(module: Module) -> EntryFunction:
    """Return the function that a module was made from, as its name and its calls tell.

    Where no call is one of the function, `source` is the first line of the outermost place in the
    user's program from which most of the entry comes.
    """
    name = _name(module.name)
    stacks = [x.stack for x in module.entry.instructions.values()]
    source: SourceLocation | None = None
    decorator = JAX_JIT
    for stack in stacks:
        place = _call_of(name, stack)
        if place is None:
            continue
        if source is None:
            decorator = _decorator(stack[place + 1 :])
        if source is None or (stack[place].file == source.file and stack[place].line < source.line):
            source = stack[place]
    return EntryFunction(name, source or _outermost(stacks), decorator)


def _name(module: str) -> str:
    for prefix in _PREFIXES:
        if module.startswith(prefix) and module.removeprefix(prefix).isidentifier():
            return module.removeprefix(prefix)
    return "f"


def _call_of(name: str, stack: Sequence[SourceLocation]) -> int | None:
    """The place in a stack of the outermost call of a function in the user's own files."""
    for place in reversed(range(len(stack))):
        frame = stack[place]
        if frame.function.rpartition(".")[2] == name and not is_library(frame.file):
            return place
    return None


def _decorator(around: Sequence[SourceLocation]) -> JitDecorator:
    """What compiled a function, by the calls around it, the innermost first."""
    file = around[0].file.replace("\\", "/") if around else ""
    return next((x for x in _OTHERS if file.endswith(x.file)), JAX_JIT)


def _outermost(stacks: Iterable[Sequence[SourceLocation]]) -> SourceLocation | None:
    counts: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, str], SourceLocation] = {}
    for stack in stacks:
        frames = user_frames(stack)
        if frames:
            place = frames[-1]
            key = place.file, place.function
            counts[key] = counts.get(key, 0) + 1
            first = places.setdefault(key, place)
            places[key] = min(first, place, key=lambda y: y.line)
    if not counts:
        return None
    return places[max(counts, key=lambda key: counts[key])]
