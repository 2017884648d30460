"""The walk of a program on a device: stretches of steps, and what the host decides between them.

What the host has to decide, the trips of a loop, the branch that is taken, and what needs other
devices stand between stretches. A loop that counts is asked once how often it runs; then its trips
are started without a wait. The predicate of any other is read before each trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

import numpy as np

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import (
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
)
from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.collectives import DeviceCollectives
from lowtide.runtime.gpu.device_steps import DeviceSteps
from lowtide.runtime.gpu.driver import Body
from lowtide.runtime.gpu.sequences import DeviceStep, PlannedSteps, Sequences
from lowtide.runtime.gpu.stretches import (
    DeviceStretch,
    Part,
    asks,
    chunk_of,
    decided_steps,
    parts_of,
    touched_by,
)

Seen: TypeAlias = "Callable[[KernelThunk | CopyThunk], None]"
"""Is shown a step that is done."""

_FEW: Final = 64
"""Bytes that are read at most where the host decides."""


@final
class DeviceWalk:
    """A program's steps on a device, put into its streams; `seen` is shown each one that is done.

    Without it steps run as they are planned.
    """

    def __init__(
        self, steps: DeviceSteps, sequences: Sequences, collectives: DeviceCollectives | None
    ) -> None:
        self._steps, self._sequences, self._collectives = steps, sequences, collectives
        self._parts: dict[tuple[int, int], tuple[Part, ...]] = {}
        self._planned: dict[int, PlannedSteps] = {}
        self._few: Bytes | None = None
        self._runs = 0
        self._can_decide: bool | None = None
        self._graph: PlannedSteps | None = None
        self.seen: Seen | None = None

    def run_program(self, thunks: Sequence[Thunk]) -> None:
        """Start all of a program; raises DriverError.

        From the second time on it is one graph, if the device decides on loops and branches.
        """
        if self.seen is None and self._is_whole(thunks):
            self._runs += 1
            if self._runs > 1:
                self._sequences.start(self._whole(thunks))
                return
        self.run(thunks)

    def _is_whole(self, thunks: Sequence[Thunk]) -> bool:
        """Whether a program asks for decisions, all of which the device can make."""
        if self._can_decide is None:
            sequences = self._sequences
            self._can_decide = (
                sequences.graphs
                and sequences.driver.decides
                and asks(thunks)
                and decided_steps(thunks) is not None
            )
        return self._can_decide

    def _whole(self, thunks: Sequence[Thunk]) -> PlannedSteps:
        """All of a program as one sequence, which is captured when it is started."""
        if self._graph is None:
            steps = [self._decided(x) for x in decided_steps(thunks) or ()]
            self._graph = self._sequences.planned(steps, is_fixed=True, is_graph=True)
        return self._graph

    def _decided(self, thunk: Thunk) -> DeviceStep:
        """A thunk as a step of a graph: the device decides on loops and branches."""
        if isinstance(thunk, KernelThunk | CopyThunk):
            return self._steps.step(thunk)
        driver = self._sequences.driver
        if isinstance(thunk, WhileThunk):
            trip = self._in_turn((*thunk.body, *thunk.condition))
            predicate = self._steps.address(thunk.predicate)

            def start(stream: int) -> None:
                driver.capture_loop(predicate, trip, stream)

        else:
            assert isinstance(thunk, ConditionalThunk)
            bodies = [self._in_turn(x) for x in thunk.branches]
            selector, is_byte = self._steps.address(thunk.selector), thunk.is_predicate

            def start(stream: int) -> None:
                driver.capture_branches(selector, is_byte, bodies, stream)

        return DeviceStep(start, touched_by(thunk))

    def _in_turn(self, thunks: Sequence[Thunk]) -> Body:
        steps = [self._decided(x) for x in decided_steps(thunks) or ()]

        def start(stream: int) -> None:
            for step in steps:
                step.start(stream)

        return start

    def run(self, thunks: Sequence[Thunk], times: int = 1) -> None:
        """Start thunks so often, one time after the other; raises DriverError."""
        key = id(thunks), times  # The program holds its thunks, so that none take their place.
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = parts_of(thunks, times)
        for part in parts:
            match part:
                case DeviceStretch():
                    self._stretch(part)
                case WhileThunk():
                    self._loop(part)
                case ConditionalThunk():
                    self.run(part.branches[self._branch(part)])
                case CollectiveThunk():
                    self._sequences.wait()
                    assert self._collectives is not None
                    self._collectives.run(part, self._steps.address)

    def _stretch(self, stretch: DeviceStretch) -> None:
        if self.seen is not None:
            for thunk in stretch.steps:
                self._steps.step(thunk).start(self._sequences.first())
                self._sequences.wait()
                self.seen(thunk)
            return
        planned = self._planned.get(id(stretch))
        if planned is None:
            steps = [self._steps.step(x) for x in stretch.steps]
            planned = self._sequences.planned(steps, is_fixed=True)
            self._planned[id(stretch)] = planned
        self._sequences.start(planned)

    def read(self, *places: BufferSlice) -> list[Bytes]:
        """Return the bytes of places, until others are read, once all that was started is done."""
        found = self._room(places)
        first = self._sequences.first()
        for data, place in zip(found, places, strict=True):
            if place.nbytes:
                self._sequences.driver.download(data, self._steps.address(place), first)
        self._sequences.wait()
        return found

    def _room(self, places: Sequence[BufferSlice]) -> list[Bytes]:
        """Bytes of the host for those of places; few of them lie where copies are quick."""
        if sum([x.nbytes for x in places]) > _FEW:
            return [np.empty(x.nbytes, np.uint8) for x in places]
        if self._few is None:
            self._few = self._sequences.driver.host_memory(_FEW)
        ends = np.cumsum([x.nbytes for x in places])
        return [self._few[end - x.nbytes : end] for end, x in zip(ends, places, strict=True)]

    # -- decisions of the host -----------------------------------------------------------------

    def _loop(self, loop: WhileThunk) -> None:
        trips = self._trips(loop)
        if trips is not None:
            chunk = chunk_of(loop, trips)
            for _ in range(trips // chunk):
                self.run(loop.body, chunk)
            for _ in range(trips % chunk):
                self.run(loop.body)
            return
        self.run(loop.condition)
        while self.read(loop.predicate)[0][0]:
            self.run(loop.body)
            self.run(loop.condition)

    def _trips(self, loop: WhileThunk) -> int | None:
        """How often a loop runs, None where only its predicate tells."""
        counter = loop.counter
        if counter is None or counter.trips is not None:
            return None if counter is None else counter.trips
        signed = counter.lowest < 0
        numbers = [
            int.from_bytes(x.tobytes(), "little", signed=signed) for x in self.read(*loop.counted)
        ]
        return counter.trips_from(numbers[0], [*numbers, counter.limit][1])

    def _branch(self, thunk: ConditionalThunk) -> int:
        (selector,) = self.read(thunk.selector)
        if thunk.is_predicate:
            return 0 if selector[0] else 1
        number = int(selector.view(np.int32)[0])
        last = len(thunk.branches) - 1
        return number if 0 <= number <= last else last
