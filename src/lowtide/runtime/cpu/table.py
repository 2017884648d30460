"""From thunks to the table of words that `walker.py` follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import ceil, inf
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowtide.cost.machine import X86_SERVER
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import (
    ASSUMED_TRIPS,
    BundleThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    HostCall,
    HostCallThunk,
    KernelEntry,
    KernelThunk,
    Thunk,
    WhileThunk,
    all_thunks,
    unbundled,
)
from lowtide.records import dataclass
from lowtide.runtime.cpu.grouping import Stage, ThunkWork, groups
from lowtide.runtime.cpu.team import MOST_PIECES
from lowtide.runtime.cpu.walker import COPY_BYTES, LOOK_WORDS, Step
from lowtide.runtime.devices.collective_block import CollectiveBlock

ALONE_SECONDS: Final = 3e-6
"""Work below that runs on the caller alone. Sharing out costs 0.2 to 0.5 us where the workers are
awake: measured, two threads halve the time from 5 us on, and win nothing below 1 us."""

LEAST_PIECE: Final = 1e-6
GREATEST_PIECE: Final = 50e-6
PIECES: Final = 4
"""Work is split into `PIECES` for each thread, of seconds between these two: a piece costs 0.05 to
0.1 us to claim, and the wait for the last one is at most one piece."""

WAKE_SECONDS: Final = 60e-6
"""A worker that sleeps is woken for work beyond that: waking takes the caller some 4 us, and the
worker comes 30 us or more later."""

LONG_SECONDS: Final = 1e-3
"""Outside of loops, signals may be seen to after work beyond that; in loops, after each trip."""

LEAST_LOOK: Final = 20e-9
"""The least seconds that a trip is taken to last."""

LOCKED_SECONDS: Final = 10e-6
"""A program below that runs with Python's lock held: releasing and taking it costs as much where
other threads want it."""

HOST_SECONDS: Final = 100e-6
"""What a call of a function outside is taken to last: others may run Python meanwhile."""

COPY_BYTES_PER_SECOND: Final = X86_SERVER.copy_bytes_per_second
"""The rate of a copy from memory to memory."""


@dataclass(frozen=True, slots=True)
class Table:
    """A program's words, and how many words of workspace a run needs.

    `shared_seconds` of the work are shared out; all of it takes `seconds` on one thread, which is
    infinite where nothing says how often a loop runs, or how long others are waited for. With
    `has_loops` it is so only where what is said of trip counts is true. `names` are those of the
    thunks by the numbers in stamps.
    """

    words: npt.NDArray[np.int64]
    workspace: int
    shared_seconds: float
    seconds: float
    has_loops: bool
    names: tuple[str, ...]


def build_table(
    thunks: Sequence[Thunk],
    kernels: Sequence[KernelEntry],
    address: Callable[[str], int],
    copy: int,
    host: Callable[[HostCall], int],
    collectives: Callable[[CollectiveThunk], CollectiveBlock],
    *,
    threads: int,
    allocations: int,
    stamped: bool = False,
) -> Table:
    """Return the table of a program.

    `address` gives the addresses of functions, `copy` is that of the function of copies, `host`
    gives those of the Python objects that make calls of functions outside, `collectives` the blocks
    of collectives with other devices. There are `allocations` bases; the run gets two more, for
    slices without bytes and, of value 0, for numbers. With `stamped` each thunk runs by itself,
    those in bundles too, and its begin and end are noted.
    """
    builder = _Builder(kernels, address, copy, host, collectives, threads, allocations, stamped)
    builder.sequence(unbundled(thunks) if stamped else thunks)
    builder.end()
    return Table(
        np.array(builder.words, np.int64),
        max(builder.workspace, 1),
        builder.shared_seconds,
        builder.seconds,
        builder.has_loops,
        tuple(builder.names),
    )


class _Builder:
    def __init__(
        self,
        kernels: Sequence[KernelEntry],
        address: Callable[[str], int],
        copy: int,
        host: Callable[[HostCall], int],
        collectives: Callable[[CollectiveThunk], CollectiveBlock],
        threads: int,
        allocations: int,
        stamped: bool,
    ) -> None:
        self.kernels = kernels
        self.stages_of: dict[int, tuple[Stage, ...]] = {}
        self.address = address
        self.copy = copy
        self.host = host
        self.collectives = collectives
        self.threads = threads
        self.nothing, self.zero = allocations, allocations + 1
        self.stamped = stamped
        self.words: list[int] = []
        self.names: list[str] = []
        self.workspace = 0
        self.shared_seconds = 0.0
        self.seconds = 0.0
        self.has_loops = False
        self.repeats = 1
        self.unseen = 0.0
        self.ends: list[int] = []

    def stages(self, number: int) -> tuple[Stage, ...]:
        """Return the stages of a kernel; one that only bundles run may have no code."""
        found = self.stages_of.get(number)
        if found is None:
            phases = self.kernels[number].phases
            found = tuple(
                [Stage(self.address(x.function), x.units, x.unit_seconds) for x in phases]
            )
            self.stages_of[number] = found
        return found

    # -- thunks --------------------------------------------------------------------------------

    def sequence(self, thunks: Sequence[Thunk]) -> None:
        """Write thunks that follow one another."""
        controls: dict[type, Callable[[Any], None]] = {
            WhileThunk: self.loop,
            ConditionalThunk: self.conditional,
            CollectiveThunk: self.collective,
            HostCallThunk: self.host_call,
            BundleThunk: self.bundle,
        }
        for write, run in groupby(thunks, lambda x: controls.get(type(x))):
            if write is None:
                self.works([self.work(x) for x in run])
                continue
            for thunk in run:
                self.stamp_around(thunk, write)

    def named(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def stamp(self, number: int) -> None:
        if self.stamped:
            self.words += [Step.STAMP.value, number]

    def stamp_around(self, thunk: Any, write: Callable[[Any], None]) -> None:
        number = self.named(thunk.name)
        self.stamp(2 * number)
        write(thunk)
        self.stamp(2 * number + 1)

    def end(self) -> None:
        for hole in self.ends:
            self.words[hole] = len(self.words)
        self.words.append(Step.END.value)

    def look(self, position: int) -> None:
        """Go on at a position, and see to signals before that if it is time."""
        nanoseconds = int(1e9 * min(max(self.unseen, LEAST_LOOK), 1.0))
        self.words += [Step.LOOK.value, nanoseconds, position, 0]
        self.ends.append(len(self.words) - 1)
        self.unseen = 0.0

    def loop(self, thunk: WhileThunk) -> None:
        start = len(self.words)
        before, self.seconds, self.has_loops = self.seconds, 0.0, True
        self.repeats *= ASSUMED_TRIPS
        self.sequence(thunk.condition)
        self.words += [Step.UNLESS.value, *self.place(thunk.predicate), 0]
        hole = len(self.words) - 1
        self.sequence(thunk.body)
        self.look(start)
        self.words[hole] = len(self.words)
        self.repeats //= ASSUMED_TRIPS
        self.seconds = before + _repeated(self.seconds, thunk)

    def conditional(self, thunk: ConditionalThunk) -> None:
        count = len(thunk.branches)
        self.words += [Step.SWITCH.value, *self.place(thunk.selector), thunk.is_predicate, count]
        targets = len(self.words)
        self.words += [0] * count
        holes = []
        for number, branch in enumerate(thunk.branches):
            self.words[targets + number] = len(self.words)
            self.sequence(branch)
            self.words += [Step.JUMP.value, 0]
            holes.append(len(self.words) - 1)
        for hole in holes:
            self.words[hole] = len(self.words)

    def host_call(self, thunk: HostCallThunk) -> None:
        self.bind([self.place(x) for x in thunk.buffers])
        self.words += [Step.HOST.value, self.host(thunk.call), 0]
        self.ends.append(len(self.words) - 1)
        self.seconds += HOST_SECONDS
        self.unseen += HOST_SECONDS

    def collective(self, thunk: CollectiveThunk) -> None:
        """Meet other devices, for any time, with room for the buffers of all behind the own."""
        scratch = (self.zero, 0) if thunk.scratch is None else self.place(thunk.scratch)
        self.bind([*[self.place(x) for x in thunk.buffers], scratch])
        block = self.collectives(thunk)
        self.workspace = max(self.workspace, block.workspace)
        self.words += [Step.COLLECTIVE.value, block.address, 0]
        self.ends.append(len(self.words) - 1)
        self.seconds = inf

    def bind(self, slots: Sequence[tuple[int, int]]) -> None:
        self.workspace = max(self.workspace, len(slots))
        self.words += [Step.BIND.value, len(slots), *[x for slot in slots for x in slot]]

    def bundle(self, thunk: BundleThunk) -> None:
        if any(isinstance(x, WhileThunk) for x in all_thunks(thunk.parts)):
            self.has_loops = True
            self.seconds += self.seconds_of(thunk.parts)
        else:
            self.seconds += thunk.seconds
        self.unseen += thunk.seconds
        self.words += [Step.BUNDLE.value, self.address(thunk.function), 0]
        self.ends.append(len(self.words) - 1)

    def seconds_of(self, thunks: Sequence[Thunk]) -> float:
        """Return about how long thunks take one after the other; nests as loops do."""
        total = 0.0
        for thunk in thunks:
            if isinstance(thunk, KernelThunk):
                phases = self.kernels[thunk.kernel].phases
                total += sum([x.units * x.unit_seconds for x in phases])
            elif isinstance(thunk, CopyThunk):
                total += thunk.source.nbytes / COPY_BYTES_PER_SECOND
            else:
                inner = sum([self.seconds_of(x) for x in thunk.sequences])
                total += _repeated(inner, thunk) if isinstance(thunk, WhileThunk) else inner
        return total

    def work(self, thunk: Any) -> ThunkWork:
        number = self.named(thunk.name)
        if isinstance(thunk, CopyThunk):
            size = thunk.source.nbytes
            units = -(-size // COPY_BYTES)
            stage = Stage(self.copy, units, size / max(units, 1) / COPY_BYTES_PER_SECOND)
            ends = (thunk.source, thunk.target)
            return ThunkWork(number, (stage,), ends, ends[:1], ends[1:], literal=size)
        assert isinstance(thunk, KernelThunk)
        reads, writes = thunk.buffers[: thunk.results], thunk.buffers[thunk.results :]
        if thunk.scratch is not None:
            writes = (*writes, thunk.scratch)
        stages = self.stages(thunk.kernel)
        return ThunkWork(number, stages, thunk.buffers, reads, writes, thunk.scratch)

    # -- groups --------------------------------------------------------------------------------

    def works(self, works: list[ThunkWork]) -> None:
        if self.stamped:
            for work in works:
                self.stamp(2 * work.number)
                self.group([work])
                self.stamp(2 * work.number + 1)
            return
        for group in groups(works, self.threads):
            if self.unseen >= LONG_SECONDS:
                self.look(len(self.words) + LOOK_WORDS)
            self.group(group)

    def group(self, group: list[ThunkWork]) -> None:
        members: list[tuple[ThunkWork, int, int]] = []
        slots: list[tuple[int, int]] = []
        for work in group:
            buffers = len(slots)
            slots += [self.place(x) for x in work.buffers]
            if work.literal is not None:
                slots.append((self.zero, work.literal))
            slots.append((self.zero, 0) if work.scratch is None else self.place(work.scratch))
            members.append((work, buffers, len(slots) - 1))
        self.workspace = max(self.workspace, len(slots))
        self.words += [Step.BIND.value, len(slots), *[x for slot in slots for x in slot]]
        for number in range(max([len(work.stages) for work in group])):
            self.stage([(w.stages[number], b, s) for w, b, s in members if number < len(w.stages)])

    def stage(self, members: list[tuple[Stage, int, int]]) -> None:
        """Write the phases that run at once."""
        members = [member for member in members if member[0].units]
        total = sum([stage.seconds for stage, _, _ in members])
        pieces = self.pieces([stage for stage, _, _ in members], total)
        count = sum(pieces)
        self.seconds += total
        self.unseen += total
        if self.threads == 1 or total < ALONE_SECONDS or count < 2:
            for stage, buffers, scratch in members:
                self.words += [Step.ALONE.value, stage.function, stage.units, buffers, scratch, 0]
            return
        self.shared_seconds += total * self.repeats
        wake = min(self.threads, count) - 1 if total >= WAKE_SECONDS else 0
        self.words += [Step.TOGETHER.value, wake, count, len(members)]
        end = 0
        for (stage, buffers, scratch), split in _longest_first(members, pieces):
            end += split
            self.words += [stage.function, stage.units, buffers, scratch, end]

    def pieces(self, stages: list[Stage], total: float) -> list[int]:
        """Return how many pieces each of the stages is split into, MOST_PIECES at most in all.

        One stage by itself has as many for each thread.
        """
        piece = min(max(total / (PIECES * self.threads), LEAST_PIECE), GREATEST_PIECE)
        if len(stages) > 1:
            piece = max(piece, total / (MOST_PIECES - len(stages)))
            return [min(max(int(x.seconds / piece), 1), x.units) for x in stages]
        most = max(MOST_PIECES // self.threads, 1) * self.threads
        wanted = ceil(total / piece / self.threads) * self.threads
        return [min(wanted, most, MOST_PIECES, x.units) for x in stages]

    def place(self, place: BufferSlice) -> tuple[int, int]:
        if place.allocation < 0:
            return self.nothing, 0
        return place.allocation, place.offset


def _repeated(seconds: float, loop: WhileThunk) -> float:
    """The time of all trips of a loop, of which one takes so long."""
    if loop.trips is None:
        return inf
    return loop.trips * max(seconds, LEAST_LOOK) if loop.trips else 0.0


def _longest_first(
    members: list[tuple[Stage, int, int]], pieces: list[int]
) -> Iterator[tuple[tuple[Stage, int, int], int]]:
    """Yield members with their numbers of pieces, those with the longest pieces first."""
    order = sorted(range(len(members)), key=lambda x: -members[x][0].seconds / pieces[x])
    for number in order:
        yield members[number], pieces[number]
