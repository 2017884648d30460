"""The callers of each computation, and the computations that are called no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.kept import kept
from lowtide.ir.traversal import callees

SMALL: Final = 1024
"""Up to so many bytes a value is held for nothing: it may be kept or repeated at will."""

_FOLLOWS_START: Final = frozenset({Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})


def count_references(module: Module) -> Counter[Computation]:
    """Return by how many instructions each computation is called.

    A loop whose condition is its body counts twice. An async-update or -done that names the
    computation of its async-start does not count.
    """
    found: Counter[Computation] = Counter()
    for computation in module.computations.values():
        if callees(computation):
            found.update(kept(computation, count_references, partial(_references, computation)))
    return found


def _references(computation: Computation) -> list[Computation]:
    """The computations that instructions of one call, by each of them."""
    return [
        callee
        for instruction in computation.instructions.values()
        if instruction.called_computations and instruction.opcode not in _FOLLOWS_START
        for callee in instruction.called_computations
    ]


def drop_unreferenced(module: Module, candidates: Iterable[Computation]) -> int:
    """Remove those of `candidates` that nobody calls, and what only they called; return how many.

    Reads the whole module: call it once per pass.
    """
    references = count_references(module)
    waiting = list(dict.fromkeys(candidates))
    dropped = 0
    while waiting:
        computation = waiting.pop()
        if references[computation] or computation.is_entry:
            continue
        if module.computations.get(computation.name) is not computation:
            continue
        module.remove_computation(computation)
        dropped += 1
        for instruction in computation.instructions.values():
            if instruction.opcode not in _FOLLOWS_START:
                references.subtract(instruction.called_computations)
        waiting += callees(computation)
    return dropped


def is_present(instruction: Instruction) -> bool:
    """Whether it is in its computation still: a walk over a copied list may meet what was removed.

    Dead loops and branches go together with what read them.
    """
    return instruction.parent.instructions.get(instruction.name) is instruction


def is_marked(instruction: Instruction, key: str) -> bool:
    """Whether a frontend attribute of that name says `false`."""
    return (key, "false") in instruction.annotations.frontend_attributes


def mark(instruction: Instruction, key: str) -> None:
    """Say by a frontend attribute that a pass has to leave an instruction as it is.

    For what a budget forbids: the next run, with a larger module to begin with, refuses it too.
    """
    annotations = instruction.annotations
    attributes = tuple(sorted([*annotations.frontend_attributes, (key, "false")]))
    instruction.set_annotations(replace(annotations, frontend_attributes=attributes))
