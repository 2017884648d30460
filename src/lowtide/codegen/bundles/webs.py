"""Webs: the slices of a bundle between which values go, apart from others in the same bytes.

Plans give bytes to one value after another. A web is a set of slices of which each is read where
another one of the set was written last.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.bundles.cells import Cells
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import BundleThunk, ConditionalThunk, KernelThunk, Thunk, WhileThunk
from lowtide.records import dataclass

_BEFORE = 1
"""The bit of what was there before the bundle, among those of the slices that wrote a cell."""

State = list[int]
"""Of each cell the slices that may have written it last, as bits."""


@dataclass(frozen=True, slots=True)
class Web:
    """Slices between which values go.

    What was there before is read in some of them where `is_input`. Some of them are written where
    `is_written`. At the end their bytes hold what they wrote, and where not `is_whole` perhaps what
    was there before; where `is_mixed` perhaps what slices of other webs wrote.
    """

    slices: tuple[BufferSlice, ...]
    is_input: bool
    is_written: bool
    is_whole: bool
    is_mixed: bool


def webs_of(thunks: Sequence[Thunk], slices: Sequence[BufferSlice]) -> tuple[list[Web], set[int]]:
    """Return the webs of some of the slices that thunks touch, and cells that are read first.

    These are the numbers of the cells, of `Cells(slices)`, that may be read before the thunks write
    them.
    """
    found = _Webs(slices)
    end = found.sequence(thunks, [_BEFORE] * found.cells.count)
    members: dict[int, list[int]] = {}
    for number in range(len(slices)):
        members.setdefault(found.root(number), []).append(number)
    webs = []
    for inner in members.values():
        bits = sum([2 << x for x in inner])
        last = 0
        for number in inner:
            for cell in found.cells.of(slices[number]):
                last |= end[cell]
        webs.append(
            Web(
                tuple([slices[x] for x in inner]),
                any(x in found.inputs for x in inner),
                any(x in found.written for x in inner),
                not last & _BEFORE,
                bool(last & ~bits & ~_BEFORE),
            )
        )
    return webs, found.first_read


class _Webs:
    def __init__(self, slices: Sequence[BufferSlice]) -> None:
        self.cells = Cells(slices)
        self.number = {x: i for i, x in enumerate(slices)}
        self.places = [self.cells.of(x) for x in slices]
        self.inputs: set[int] = set()
        self.written: set[int] = set()
        self.first_read: set[int] = set()
        self._parents = list(range(len(slices)))
        self._seen: set[tuple[int, int]] = set()

    def root(self, number: int) -> int:
        """The slice that stands for a web."""
        while self._parents[number] != number:
            self._parents[number] = number = self._parents[self._parents[number]]
        return number

    def sequence(self, thunks: Sequence[Thunk], state: State) -> State:
        """Follow thunks, and return the state after them; nests as loops and branches do."""
        for thunk in thunks:
            match thunk:
                case WhileThunk():
                    state = self.loop(thunk, state)
                case ConditionalThunk():
                    self.read(thunk, state)
                    state = _joined([self.sequence(x, list(state)) for x in thunk.branches])
                case BundleThunk():
                    state = self.sequence(thunk.parts, state)
                case _:
                    self.read(thunk, state)
                    self.write(thunk, state)
        return state

    def loop(self, thunk: WhileThunk, state: State) -> State:
        """Follow a loop until another trip changes nothing."""
        while True:
            tested = self.sequence(thunk.condition, list(state))
            self.read(thunk, tested)
            after = _joined([state, self.sequence(thunk.body, list(tested))])
            if after == state:
                return tested
            state = after

    def read(self, thunk: Thunk, state: State) -> None:
        """Join what a thunk reads with what wrote it."""
        for place in thunk.reads:
            number = self.number.get(place)
            if number is None:
                continue
            for cell in self.places[number]:
                writers = state[cell]
                if writers & _BEFORE:
                    self.inputs.add(number)
                    self.first_read.add(cell)
                if (number, writers) not in self._seen:
                    self._seen.add((number, writers))
                    self._join(number, writers >> 1)

    def _join(self, number: int, writers: int) -> None:
        while writers:
            lowest = writers & -writers
            writers ^= lowest
            self._parents[self.root(lowest.bit_length() - 1)] = self.root(number)

    def write(self, thunk: Thunk, state: State) -> None:
        """Note what a thunk writes; what was in its scratch is lost, and nobody reads that."""
        if isinstance(thunk, KernelThunk) and thunk.scratch is not None:
            self._fill(thunk.scratch, state)
        for place in thunk.writes:
            self.written |= self._fill(place, state)

    def _fill(self, place: BufferSlice, state: State) -> set[int]:
        """Note a slice as what wrote its cells; return its number, if it has one."""
        number = self.number.get(place)
        if number is None:
            return set()
        for cell in self.places[number]:
            state[cell] = 2 << number
        return {number}


def _joined(states: Sequence[State]) -> State:
    """What may be where one of several states is."""
    found = list(states[0])
    for state in states[1:]:
        found = [a | b for a, b in zip(found, state, strict=True)]
    return found
