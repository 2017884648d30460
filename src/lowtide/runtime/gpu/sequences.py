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
    they do not. Steps that are nothing but parts of a graph are captured at once: `is_graph`.
    """

    steps: tuple[DeviceStep, ...]
    places: tuple[StreamStep, ...]
    is_fixed: bool
    is_graph: bool = False
    starts: int = 0
    graph: int = 0


@final
class Sequences:
    """Streams and events of one program on a device.

    Sequences run one after the other, whichever streams they use; a stream waits for others as late
    as when it is used again. Without `graphs` nothing is captured.
    """

    def __init__(self, driver: Driver, streams: int, graphs: bool) -> None:
        self.driver, self.graphs = driver, graphs
        self.streams = [driver.stream() for _ in range(streams)]
        self._events: list[int] = []
        self._behind: dict[int, dict[int, None]] = {x: {} for x in self.streams}
        """By stream the others with work that it has not waited for, in order."""
        self._busy: dict[int, None] = {}
        """Streams with work that the host has not waited for."""

    def planned(
        self, steps: Sequence[DeviceStep], *, is_fixed: bool, is_graph: bool = False
    ) -> PlannedSteps:
        """Return steps with their streams; they stand in an order that is right one by one."""
        places = in_streams([x.touched for x in steps], len(self.streams))
        return PlannedSteps(tuple(steps), places, is_fixed, is_graph)

    def start(self, planned: PlannedSteps) -> None:
        """Put steps into streams, or the graph of them; raises DriverError."""
        planned.starts += 1
        is_worth = planned.is_fixed and planned.starts == 2 and len(planned.steps) > 1
        if not planned.graph and self.graphs and (is_worth or planned.is_graph):
            planned.graph = self._captured(planned)
        if planned.graph:
            first = self.first()
            self.driver.launch_graph(planned.graph, first)
            self._used([first])
            return
        used = [self.streams[x] for x in dict.fromkeys([x.stream for x in planned.places])]
        events = self._numbered()
        self._catch_up(used, events)
        self._put(planned, events)
        self._used(used)

    def first(self) -> int:
        """Return the first stream, which goes on after all that was started, for more work."""
        stream = self.streams[0]
        self._busy[stream] = None
        if self._behind[stream]:
            self._catch_up([stream], self._numbered())
        return stream

    def wait(self) -> None:
        """Return once all that was started is done; raises DriverError for what failed."""
        for stream in self._busy:
            self.driver.synchronize(stream)
        self._busy.clear()
        for behind in self._behind.values():
            behind.clear()

    def _catch_up(self, streams: Sequence[int], events: Iterator[int]) -> None:
        """Have streams go on after all that was started in others."""
        ends = dict.fromkeys([y for x in streams for y in self._behind[x]], 0)
        for other in ends:
            ends[other] = next(events)
            self.driver.record(ends[other], other)
        for stream in streams:
            for other in self._behind[stream]:
                self.driver.wait(ends[other], stream)
            self._behind[stream].clear()

    def _used(self, streams: Sequence[int]) -> None:
        """Note that there is new work in streams, which others have not waited for."""
        self._busy.update(dict.fromkeys(streams))
        for stream, behind in self._behind.items():
            behind.update(dict.fromkeys([x for x in streams if x != stream]))

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
        self._put(planned, events)
        for place in used:
            event = next(events)
            self.driver.record(event, self.streams[place])
            self.driver.wait(event, first)
        return self.driver.end_capture(first)

    def _put(self, planned: PlannedSteps, events: Iterator[int]) -> None:
        """Start steps, with an event where one waits for another."""
        driver = self.driver
        known = {x: next(events) for x in sorted({x for y in planned.places for x in y.waits})}
        for number, (step, place) in enumerate(zip(planned.steps, planned.places, strict=True)):
            stream = self.streams[place.stream]
            for other in place.waits:
                driver.wait(known[other], stream)
            step.start(stream)
            if number in known:
                driver.record(known[number], stream)

    def _numbered(self) -> Iterator[int]:
        """All events there are, and new ones behind them."""
        number = 0
        while True:
            if number == len(self._events):
                self._events.append(self.driver.event())
            yield self._events[number]
            number += 1
