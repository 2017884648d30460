"""Donated arguments that no result is tied to: which of them a program takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from lowtide.ir import Module, Shape
from lowtide.ir.module import BufferDonor, InputOutputAlias
from lowtide.ir.shape import ShapeIndex

_Match: TypeAlias = Callable[[Shape, Shape], bool]


def tie_donors(module: Module) -> None:
    """Have each donor give its memory to a result of its shape that has no other's.

    One that finds only a result of as many bytes remains a donor, and the others are donors no
    more: XLA does not take these from the caller either.
    """
    program = module.entry_layout or module.entry.program_shape
    free = {index: leaf for index, leaf in program.result.leaves() if leaf.is_array}
    for alias in module.input_output_aliases:
        free.pop(alias.output_index, None)
    aliases, left = list(module.input_output_aliases), list[BufferDonor]()
    for donor in module.buffer_donors:
        index = _taken(free, _shape(program.parameters, donor), _same)
        if index is None:
            left.append(donor)
        else:
            aliases.append(InputOutputAlias(index, donor.parameter, donor.parameter_index))
    kept = [x for x in left if _taken(free, _shape(program.parameters, x), _as_large) is not None]
    module.input_output_aliases, module.buffer_donors = tuple(aliases), tuple(kept)


def _shape(parameters: Sequence[Shape], donor: BufferDonor) -> Shape:
    return parameters[donor.parameter].at(donor.parameter_index)


def _taken(free: dict[ShapeIndex, Shape], given: Shape, match: _Match) -> ShapeIndex | None:
    """Take the first result that matches out of those that are free; None where none does."""
    found = next((index for index, leaf in free.items() if match(given, leaf)), None)
    if found is not None:
        del free[found]
    return found


def _same(given: Shape, leaf: Shape) -> bool:
    return given is leaf


def _as_large(given: Shape, leaf: Shape) -> bool:
    return given.nbytes == leaf.nbytes
