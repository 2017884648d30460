"""Memory of one call at a time: an arena, and the words that native code reads and writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass
from lowtide.runtime.cpu.arena import Arena, ArenaPlan
from lowtide.runtime.cpu.entry import CONTEXT_WORDS
from lowtide.runtime.cpu.signals import CONTROL_WORDS

Words = npt.NDArray[np.int64]

NOTHING, ZERO, UNREAD = 0, 1, 2
EXTRA_BASES = 3
"""The bases behind those of allocations: of slices without bytes, of numbers, and the place for the
address of an argument that is not read."""


@dataclass(frozen=True, slots=True)
class FramePlan:
    """What the frames of a program begin with.

    In `bases` constants are set, and `arena` puts the rest; then there are the words of the control
    block, those of the context, what takes their place there when arguments are consumed, and the
    number of words of workspace.
    """

    bases: Words
    arena: ArenaPlan
    control: Sequence[int]
    context: Sequence[int]
    consuming: Sequence[int]
    workspace: int


class Frame:
    """One frame: what is written to its parts is seen by native code.

    `address` and `consuming` are what the native entry is given for the two kinds of calls.
    """

    __slots__ = ("address", "arena", "bases", "consuming", "control", "places", "words")

    def __init__(self, plan: FramePlan, arena: Arena, workspace_slots: int = 0) -> None:
        control = plan.bases.size
        context = control + CONTROL_WORDS
        consuming = context + CONTEXT_WORDS
        workspace = consuming + CONTEXT_WORDS
        self.words = np.zeros(workspace + max(plan.workspace, workspace_slots), np.int64)
        start = self.words.ctypes.data
        self.bases = self.words[:control]
        self.control = self.words[control:context]
        self.bases[:] = plan.bases
        self.places = plan.arena.places
        self.rest_on(arena)
        self.control[:] = plan.control
        self.control[1] = start + 8 * workspace
        for begin, words in ((context, plan.context), (consuming, plan.consuming)):
            self.words[begin : begin + CONTEXT_WORDS] = words
            self.words[begin + 1 : begin + 3] = start, start + 8 * control
        self.address = start + 8 * context
        self.consuming = start + 8 * consuming

    def rest_on(self, arena: Arena) -> None:
        """Have the next runs use an arena, which is at least as large as the plan's."""
        self.arena = arena
        for index, offset in self.places:
            self.bases[index] = arena.address + offset

    def run_words(self) -> tuple[int, int, int]:
        """Return what `run` is given: the addresses of table, bases and control."""
        at = self.bases.size + CONTROL_WORDS
        table, bases, control = self.words[at : at + 3].tolist()
        return table, bases, control

    def replace_table(self, address: int) -> None:
        """Have `run_words` return another table."""
        self.words[self.bases.size + CONTROL_WORDS] = address
