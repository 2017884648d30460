"""Steps of a program put into streams of a device: planned once, started often, later as graphs.

A sequence that is started again is captured then: from that time on it is one launch of a graph,
which holds the same steps with the same waits between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, final

from lowtide.records import dataclass
from lowtide.runtime.gpu.driver import Driver
from lowtide.runtime.gpu.streams import StreamStep, Touched, in_streams


class DeviceStep(NamedTuple):
    """Work of a sequence: what puts it into a stream, and the bytes that it touches."""

    start: Callable[[int], None]
    touched: Touched


@dataclass(slots=True, eq=False)
class PlannedSteps:
    """Steps and the streams that they run in; `graph` is 0 until there is one.

    Steps that take other addresses of the host in each call make no graph: `is_fixed` says that
    they do not.
    """

    steps: tuple[DeviceStep, ...]
    places: tuple[StreamStep, ...]
    is_fixed: bool
    starts: int = 0
    graph: int = 0


@final
class Sequences:
    """Streams and events of one program on a device.

    All streams go on after what was started last; without `graphs` nothing is captured.
    """

    def __init__(self, driver: Driver, streams: int, graphs: bool) -> None:
        self.driver, self.graphs = driver, graphs
        self.streams = [driver.stream() for _ in range(streams)]
        self._events: list[int] = []

    def planned(self, steps: Sequence[DeviceStep], *, is_fixed: bool) -> PlannedSteps:
        """Return steps with their streams; they stand in an order that is right one by one."""
        places = in_streams([x.touched for x in steps], len(self.streams))
        return PlannedSteps(tuple(steps), places, is_fixed)

    def start(self, planned: PlannedSteps) -> None:
        """Put steps into streams, or the graph of them; raises DriverError."""
        planned.starts += 1
        if not planned.graph and self.graphs and planned.starts == 2 and len(planned.steps) > 1:
            planned.graph = self._captured(planned) if planned.is_fixed else 0
        if not planned.graph:
            self._join(*self._put(planned))
            return
        first, events = self.streams[0], self._numbered()
        self.driver.launch_graph(planned.graph, first)
        self._join([first], events)

    def wait(self) -> None:
        """Return once all that was started is done; raises DriverError for what failed."""
        for stream in self.streams:
            self.driver.synchronize(stream)

    def _captured(self, planned: PlannedSteps) -> int:
        """A graph of steps: other streams begin after the first and end before it does."""
        first = self.streams[0]
        self.driver.begin_capture(first)
        events = self._numbered()
        fork = next(events)
        self.driver.record(fork, first)
        used = sorted({x.stream for x in planned.places} - {0})
        for place in used:
            self.driver.wait(fork, self.streams[place])
        _, events = self._put(planned, events)
        for place in used:
            event = next(events)
            self.driver.record(event, self.streams[place])
            self.driver.wait(event, first)
        return self.driver.end_capture(first)

    def _put(
        self, planned: PlannedSteps, events: Iterator[int] | None = None
    ) -> tuple[list[int], Iterator[int]]:
        """Start steps, with an event where one waits for another; the streams that were used."""
        driver, free = self.driver, events or self._numbered()
        known = {x: next(free) for x in sorted({x for y in planned.places for x in y.waits})}
        for number, (step, place) in enumerate(zip(planned.steps, planned.places, strict=True)):
            stream = self.streams[place.stream]
            for other in place.waits:
                driver.wait(known[other], stream)
            step.start(stream)
            if number in known:
                driver.record(known[number], stream)
        used = dict.fromkeys([x.stream for x in planned.places])
        return [self.streams[x] for x in used], free

    def _join(self, used: Sequence[int], events: Iterator[int]) -> None:
        """Have all streams go on after what is in those that were used."""
        ends = []
        for stream in used:
            event = next(events)
            self.driver.record(event, stream)
            ends.append((event, stream))
        for stream in self.streams:
            for event, other in ends:
                if stream != other:
                    self.driver.wait(event, stream)

    def _numbered(self) -> Iterator[int]:
        """All events there are, and new ones behind them."""
        number = 0
        while True:
            if number == len(self._events):
                self._events.append(self.driver.event())
            yield self._events[number]
            number += 1
