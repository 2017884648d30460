"""Programs as machine code launches them: made at the first call of a program."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int64
from typing import Any, Final
from weakref import finalize

from lowtide.client.executable.executable import Executable
from lowtide.native import make
from lowtide.pjrt.blocks import (
    CONSUME,
    FRAMES,
    HELD_LAUNCH,
    MOVE,
    ArgumentRecord,
    Launch,
    ResultRecord,
)
from lowtide.pjrt.devices import card
from lowtide.pjrt.handles import hold
from lowtide.pjrt.layouts import row_major, sizes_at
from lowtide.pjrt.native_code import native_code
from lowtide.pjrt.program_answers import generated_bytes
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.queues import WORKER_ARENAS, DeviceQueue, queue_of
from lowtide.runtime.cpu.arena import NO_ARENA
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.handover import form_at
from lowtide.runtime.cpu.launch import LaunchPlan
from lowtide.runtime.cpu.pages import give
from lowtide.runtime.cpu.results import MOVED_BYTES, Made

UNKNOWN: Final = 1 << 62
"""The nanoseconds that a run is expected to take where nothing says how long it is."""

OWN_ARENA: Final = 1 << 20
"""Arenas of so many bytes, or less, are the program's own, so that any thread can run it."""


class LaunchedProgram:
    """A launch for Python: the program, and the blocks that machine code reads.

    `calls_python` says whether it calls functions of this process.
    """

    def __init__(self, program: PluginProgram) -> None:
        self.program = program
        executable, plan = program.alive(), None
        queue = queue_of(program.device)
        self.calls_python = False
        if isinstance(executable, Executable):
            self.calls_python = bool(executable.program.python_call)
            executable.use_arenas(WORKER_ARENAS if program.is_shared else queue)
            plan = executable.launch_plan() if card() is None else None
        self._blocks: list[Any] = []
        self._frames: list[Any] = []
        self.block: Any = make(Launch, refs=1, held=HELD_LAUNCH, device=program.device.address)
        runs_here = self.calls_python and not program.is_shared
        self.block.elsewhere = runs_here or not program.is_usual
        self.block.expected = 0 if runs_here or card() is not None else UNKNOWN
        self.block.is_shared = program.is_shared
        self.block.argument_count = program.argument_count
        self.block.result_count = len(program.results)
        self.block.donated_count = len(program.donated)
        self.block.donated = self._stored(
            (c_int64 * max(1, len(program.donated)))(*program.donated)
        )
        made = plan.results if plan is not None else ()
        places = dict(plan.arena.places) if plan is not None else {}
        records = _results(program, made, places)
        self.block.results = self._stored(records)
        finalize(self, _unmap_homes, records).atexit = False
        self.block.nbytes = executable.arena_bytes
        if plan is not None and plan.is_native and _is_plain(program) and not program.is_shared:
            self._make_native(plan, queue, records)
        self.address = ctypes.addressof(self.block)
        hold(self.address, self, self.block)
        constants = sum([values.nbytes for _, values in executable.program.constants])
        queue.reserve(self, generated_bytes(program) + constants)
        native_code().unsettle(queue.address)  # Compilations leave much behind.

    def _make_native(self, plan: LaunchPlan, queue: DeviceQueue, records: Any) -> None:
        self.block.is_native = 1
        rows = [(x.base, x.nbytes, x.alignment - 1) for x in plan.arguments]
        self.block.arguments = self._stored(_list_of(ArgumentRecord, rows))
        places = [word for pair in plan.arena.places for word in pair]
        self.block.places = self._stored((c_int64 * max(1, len(places)))(*places))
        self.block.place_count = len(plan.arena.places)
        self.block.arena_bytes = plan.arena.nbytes
        self.block.moved = sum([x.inner_bytes for x in records if x.fill == MOVE])
        self.block.run = plan.run
        self.block.expected = int(min(plan.seconds * 1e9, UNKNOWN))
        self.block.is_timed = plan.has_loops
        if plan.arena.nbytes > OWN_ARENA:
            self.block.bare = self._frame(plan.frame(NO_ARENA))
            return
        for number in range(FRAMES):
            arena = queue.new_arena(plan.arena.nbytes)
            self.block.frames[number] = self._frame(plan.frame(arena))

    def _stored(self, block: Any) -> int:
        self._blocks.append(block)
        return ctypes.addressof(block)

    def _frame(self, frame: Any) -> int:
        self._frames.append(frame)
        address: int = frame.address
        return address


def _is_plain(program: PluginProgram) -> bool:
    """Whether all that goes in and out is an array in row-major order."""
    types = (*program.arguments, *program.results)
    return not program.tokens and all(x.order == row_major(len(x.sizes)) for x in types)


def _list_of(record: Any, rows: Sequence[tuple[int, ...]]) -> Any:
    return (record * max(1, len(rows)))(*[record(*x) for x in rows])


def _results(program: PluginProgram, made: Sequence[Made], places: Mapping[int, int]) -> Any:
    """The records of results; where Python makes them, only their types and bytes are read."""
    count = len(program.results)
    records = (ResultRecord * max(1, count))()
    for number, result in enumerate(program.results):
        row: Any = records[number]
        row.nbytes = result.nbytes
        row.dimensions, row.rank = sizes_at(result.sizes, result.order), len(result.sizes)
        row.number = result.number
        row.argument = -1
        if len(made) == count:
            x = made[number]
            row.base, row.offset, row.argument = x.allocation, x.offset, x.consumed
            row.fill = x.fill.value
            if x.consumed >= 0:
                row.fill = CONSUME
            elif x.moved:
                row.fill = MOVE
                _set_form(row, places[x.allocation] + x.offset)
            elif x.fill is Fill.PLACE and x.nbytes >= MOVED_BYTES:
                _set_form(row, 0)
    return records


def _set_form(row: Any, begin: int) -> None:
    """Note how a result lies in pages that begins there in an arena, or with a page of its own."""
    form = form_at(begin, row.nbytes)
    row.data, row.inner, row.inner_bytes = form.data, form.inner, form.inner_bytes
    row.pages, row.remainder = form.pages, form.remainder


def _unmap_homes(records: Any) -> None:
    """Give back the addresses that wait for results of a program that is gone."""
    for row in records:
        for home in row.hollow:
            if home:
                give(home, row.pages)
