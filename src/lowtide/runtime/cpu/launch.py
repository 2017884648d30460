"""Runs of programs by others than Python: the places of arguments and results, and frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.literal import DTYPES
from lowtide.ir.thunk import (
    BundleThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
    all_thunks,
)
from lowtide.records import dataclass
from lowtide.runtime.cpu import pages
from lowtide.runtime.cpu.arena import Arena, ArenaPlan
from lowtide.runtime.cpu.arguments import alignment, is_row_major
from lowtide.runtime.cpu.binding import Binding
from lowtide.runtime.cpu.frame import UNREAD, Frame, FramePlan
from lowtide.runtime.cpu.results import Made
from lowtide.runtime.cpu.signals import RELEASE, THREAD_STATE

_NATIVE: Final = (KernelThunk, CopyThunk, WhileThunk, ConditionalThunk, BundleThunk)
"""The steps that run without Python."""


@dataclass(frozen=True, slots=True)
class LaunchArgument:
    """The base that an argument's address becomes, its bytes, what its address is a multiple of."""

    base: int
    nbytes: int
    alignment: int


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The way machine code runs a program on row-major arrays, if `is_native`; else Python has to.

    `run` is the address of a function that takes the three words at `Frame.address`. The results
    are made as in calls that consume. `seconds` is the time on one thread as it is estimated; with
    `has_loops` only a run tells how long it takes.
    """

    arguments: tuple[LaunchArgument, ...]
    results: tuple[Made, ...]
    arena: ArenaPlan
    run: int
    seconds: float
    has_loops: bool
    is_native: bool
    frames: FramePlan

    def frame(self, arena: Arena) -> Frame:
        """Return a new frame for runs that neither hold nor take Python's lock."""
        frame = Frame(self.frames, arena)
        frame.control[RELEASE : THREAD_STATE + 1] = 0
        return frame


def launch_plan(binding: Binding, thunks: Sequence[Thunk]) -> LaunchPlan:
    """Return how a program with these steps is run."""
    interface = binding.interface
    unread = len(interface.memories) + UNREAD
    arguments = tuple(
        [
            LaunchArgument(
                unread if x.allocation < 0 else x.allocation,
                DTYPES[x.shape.element_type].itemsize * x.shape.element_count,
                alignment(x.shape),
            )
            for x in interface.arguments
        ]
    )
    shapes = [*[x.shape for x in interface.arguments], *[x.shape for x in interface.results]]
    plain = all(is_row_major(x) for x in shapes)
    here = pages.can_move() or not any(x.moved for x in binding.consuming)
    return LaunchPlan(
        arguments,
        binding.consuming,
        binding.arena,
        binding.native.library["unlocked"],
        binding.linked.table.seconds,
        binding.linked.table.has_loops,
        plain and here and _need_no_python(thunks),
        binding.frames,
    )


def _need_no_python(thunks: Sequence[Thunk]) -> bool:
    return all(isinstance(x, _NATIVE) for x in all_thunks(thunks))
