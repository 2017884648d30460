"""Copies that turn out to be needless in the order that was chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lowtide.analysis.colocation import StorageClasses, wishes
from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.flat_schedule import FlatSchedule, flatten
from lowtide.buffers.editor import Editor
from lowtide.ir import Instruction, Module, Opcode


def remove_copies(
    module: Module, flows: Dataflow, candidates: Iterable[Instruction]
) -> frozenset[Instruction]:
    """Remove those of some copies of a scheduled module which it can do without; return them.

    A copy goes where it and its operand can lie in one buffer, at every place from which it runs,
    with all else that has to lie there. `flows` are the values of the module.
    """
    assert module.schedule is not None
    pairs = [(alias.output, alias.parameter) for alias in aliases(module)]
    writable = frozenset([parameter for _, parameter in pairs])
    flat = flatten(module.entry, module.schedule.sequences, flows, writable)
    sharing = StorageClasses(flat)
    sharing.claim(pairs, owns_results=True)
    sharing.grant(wishes(flat, pairs))
    runs = _runs(flat, candidates)
    editor = Editor(module)
    removed = []
    for copy, values in runs.items():
        if not _is_overwritten_alone(copy) and all(sharing.merge_equal(*pair) for pair in values):
            editor.leave_out(copy)
            removed.append(copy)
    editor.finish()
    return frozenset(removed)


def _is_overwritten_alone(copy: Instruction) -> bool:
    """Whether a reader may write over the copy for having no other reader, as its operand has."""
    is_shared = len(copy.operands[0].users) > 1
    return is_shared and any(user.opcode in _ONLY_READERS for user in copy.users)


_ONLY_READERS: Final = frozenset({Opcode.SORT, Opcode.CALL})
"""Operations that write over an operand where nothing else reads it, be it before them."""


def _runs(
    flat: FlatSchedule, candidates: Iterable[Instruction]
) -> dict[Instruction, list[tuple[int, int]]]:
    """Per copy the value that is copied and the one that is made, each time that it runs."""
    found: dict[Instruction, list[tuple[int, int]]] = {copy: [] for copy in candidates}
    for site in flat.sites:
        flow = site.flow
        for copy in found.keys() & flow.number.keys():
            (read,), (made,) = flow.leaves_of(copy.operands[0]), flow.leaves_of(copy)
            found[copy].append((site.values[read], site.values[made]))
    return found
