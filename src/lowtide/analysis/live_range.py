"""Live ranges of the buffers of a program, the bytes that live at each step, and the peak.

position      0    1    2    3    4
a, 8 bytes    #    #    #             first 0, last 2: both ends are included
b, 8 bytes         #    #    #
c, 4 bytes    #              #    #   two rows, since the buffer is free in between
profile      12   16   16   12    4   the peak is at position 1, the first of the highest
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.colocation import Colocation, colocate
from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.donation import Alias
from lowtide.analysis.flat_schedule import FlatSchedule, Sequences, flatten
from lowtide.analysis.scratch import ScratchBytes, with_scratch
from lowtide.ir import Computation
from lowtide.records import dataclass

Int64Array = npt.NDArray[np.int64]


CACHE_LINE: Final = 64
"""Bytes of a cache line of a processor, and of its widest vector."""


@dataclass(frozen=True, eq=False, slots=True)
class LiveRanges:
    """The buffers of a flattened program and the stretches in which they are taken.

    Buffers are temporaries, outputs, and arguments that outputs overwrite; other arguments and
    constants are none. `nbytes` is per buffer. A row of `buffer`, `first`, `last` says that
    `buffer` is taken at these positions, both included; a buffer has several rows where it is free
    in between, and its rows never overlap. `profile` is the sum of bytes taken at each position.
    `output_bytes` is the size of all leaves of the result, `alias_bytes` that of the arguments that
    outputs overwrite. `scratch` has, by position, the buffer of what a step needs while it runs.
    Offsets are multiples of `alignment` bytes, or of the largest power of two in a size if that is
    less.
    """

    flat: FlatSchedule
    colocation: Colocation
    aliases: tuple[Alias, ...]
    nbytes: Int64Array
    buffer: Int64Array
    first: Int64Array
    last: Int64Array
    profile: Int64Array
    output_bytes: int
    alias_bytes: int
    scratch: Mapping[int, int] = field(default_factory=dict)
    alignment: int = CACHE_LINE

    @property
    def live_bytes(self) -> int:
        """The most bytes taken at once, less `alias_bytes`: what a call needs beyond arguments."""
        return int(self.profile.max(initial=0)) - self.alias_bytes

    @property
    def peak_position(self) -> int:
        """The first position at which most bytes are taken."""
        return int(self.profile.argmax()) if len(self.profile) else 0

    def values_at(self, position: int) -> list[int]:
        """Return the value that each taken buffer holds at a position, in order of buffers.

        Where one value takes the place of another at that position, it is the new one.
        """
        taken = set(self.buffer[(self.first <= position) & (self.last >= position)].tolist())
        held: dict[int, tuple[bool, int, int]] = {}
        values = self.flat.values
        end = self.flat.length - 1
        for value, buffer in enumerate(self.colocation.buffer_of):
            if buffer not in taken or min(values.first[value], end) > position:
                continue
            needed = any(
                min(first, end) <= position <= min(last, end)
                for first, last in self.flat.stretches_of(value)
            )
            found = (needed, values.first[value], value)
            held[buffer] = max(found, held.get(buffer, found))
        return [held[buffer][2] for buffer in sorted(held)]


def live_ranges(
    root: Computation,
    sequences: Sequences,
    flows: Dataflow,
    aliases: Sequence[Alias],
    *,
    owns_results: bool = False,
    share_copies: bool = True,
    scratch_bytes: ScratchBytes | None = None,
    alignment: int = CACHE_LINE,
    space: int | None = None,
) -> LiveRanges:
    """Return when the buffers of the program that starts at `root` are taken.

    `sequences` holds the order of `root` and of all that it runs. What leaves the program is taken
    up to the last position. With `owns_results`, each leaf of the result has storage of its own, as
    in the entry; the program must then have all the copies that it needs. With `share_copies`, the
    copy of a value that dies stays in its place. What instructions need while they run is a buffer
    of each step, too, where `scratch_bytes` tells its size. `alignment` is that of offsets, in
    bytes. With `space` only buffers in that memory space have bytes.
    """
    writable = frozenset([alias.parameter for alias in aliases])
    flat = flatten(root, sequences, flows, writable)
    if space is not None:
        flat = _only(flat, space)
    pairs = [(alias.output, alias.parameter) for alias in aliases]
    colocation = colocate(flat, pairs, owns_results=owns_results, share_copies=share_copies)
    if colocation.refusals and owns_results:
        raise AssertionError(f"{root.name}: copies are missing: {colocation.refusals[0]}")
    scratch: dict[int, int] = {}
    if scratch_bytes is not None:
        colocation, scratch = with_scratch(colocation, flat, scratch_bytes)
    rows = np.array(_rows(colocation, flat), np.int64).reshape(-1, 3)
    nbytes = np.array(colocation.nbytes, np.int64)
    size = flat.values.nbytes
    return LiveRanges(
        flat,
        colocation,
        tuple(aliases),
        nbytes,
        rows[:, 0],
        rows[:, 1],
        rows[:, 2],
        memory_profile(flat.length, nbytes[rows[:, 0]], rows[:, 1], rows[:, 2]),
        sum([size[value] for value in flat.outputs]),
        sum([size[flat.parameters[alias.parameter]] for alias in aliases]),
        scratch,
        alignment,
    )


def _only(flat: FlatSchedule, space: int) -> FlatSchedule:
    """A schedule in which values outside of a memory space have no bytes."""
    values = flat.values
    pairs = zip(values.nbytes, values.space, strict=True)
    return replace(flat, values=replace(values, nbytes=[x if y == space else 0 for x, y in pairs]))


def needs_no_copies(
    root: Computation, sequences: Sequences, flows: Dataflow, aliases: Sequence[Alias]
) -> bool:
    """Return whether a program runs in an order with the copies that it has.

    Arguments are those of `live_ranges`; each leaf of the result has storage of its own.
    """
    flat = flatten(root, sequences, flows, frozenset([alias.parameter for alias in aliases]))
    pairs = [(alias.output, alias.parameter) for alias in aliases]
    return not colocate(flat, pairs, owns_results=True, save_memory=False).refusals


def memory_profile(
    length: int, nbytes: Int64Array, first: Int64Array, last: Int64Array
) -> Int64Array:
    """Return the bytes live at each of `length` positions; ranges include both ends."""
    change = np.zeros(length + 1, np.int64)
    np.add.at(change, first, nbytes)
    np.subtract.at(change, last + 1, nbytes)
    return np.cumsum(change)[:length]


def _rows(colocation: Colocation, flat: FlatSchedule) -> list[tuple[int, int, int]]:
    """(buffer, first, last), with what happens behind the last position moved to it.

    What ends within an asynchronous computation is taken until that is done.
    """
    end = flat.length - 1
    until = list(range(flat.length))
    for first, start, done in flat.asynchronous:
        for position in range(first, start + 1):
            until[position] = max(until[position], done)
    rows: list[tuple[int, int, int]] = []
    for buffer, segments in enumerate(colocation.segments):
        behind = -2
        for first, last, _, _ in segments:
            start, stop = min(first, end), until[min(last, end)]
            if start <= behind:
                rows[-1] = (buffer, rows[-1][1], max(stop, behind))
            else:
                rows.append((buffer, start, stop))
            behind = max(stop, behind)
    return rows
