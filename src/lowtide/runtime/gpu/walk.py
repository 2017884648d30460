"""The walk of a program on a device: stretches of steps, and what the host decides between them.

What the host has to decide, the trips of a loop, the branch that is taken, and what needs other
devices stand between stretches. A loop that counts is asked once how often it runs; then its trips
are started without a wait. The predicate of any other is read before each trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

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
from lowtide.runtime.gpu.sequences import PlannedSteps, Sequences
from lowtide.runtime.gpu.stretches import DeviceStretch, Part, chunk_of, parts_of

Seen: TypeAlias = "Callable[[KernelThunk | CopyThunk], None]"
"""Is shown a step that is done."""


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
        self.seen: Seen | None = None

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
        """Return the bytes of places once all that was started is done."""
        found = [np.empty(x.nbytes, np.uint8) for x in places]
        first = self._sequences.first()
        for data, place in zip(found, places, strict=True):
            if place.nbytes:
                self._sequences.driver.download(data, self._steps.address(place), first)
        self._sequences.wait()
        return found

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
