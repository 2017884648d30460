"""Streams of an emulated device: work that is done late, in an order that a seed draws, and graphs.

Whenever something is put into a stream or waited for, a stream is drawn, fast ones more often, and
what is first in it is done if all that it waits for is. Vector clocks tell which work comes after
which. Work that is captured is not done: it becomes a graph, whose launches do it in any order that
the waits between streams allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import count
from random import Random
from typing import Final, final

import numpy as np

from lowtide.emulator.shadow import MOST_STREAMS, Clock, EmulationError, Shadow, WatchedMoment
from lowtide.records import dataclass

Run = Callable[[WatchedMoment], None]
"""Does a piece of work at its moment."""

Steps = Callable[[WatchedMoment], Iterator[int]]
"""Yields the numbers of the bodies that run, each when all before it is done."""

_SPEEDS: Final = (1.0, 0.03, 0.001)
"""Slow streams fall far behind, so that what others should have waited for is not there."""

_EAGERNESS: Final = 0.3
"""How likely it is that work is done when some is put into a stream, and then more of it."""


@dataclass(slots=True, eq=False)
class _Work:
    """What is in a stream, the addresses that it touches, and the work that it comes after."""

    run: Callable[[], None]
    touches: tuple[int, ...] = ()
    after: tuple[_Work, ...] = ()
    is_done: bool = False

    @property
    def may_run(self) -> bool:
        """Whether all that it waits for is done."""
        return all(x.is_done for x in self.after)


@dataclass(slots=True, eq=False)
class _Lane:
    """Work in turn: a stream, or the part of a graph that was captured in one."""

    number: int
    speed: float
    clock: Clock
    queue: deque[_Work] = field(default_factory=deque)


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """Work of a graph: what it does, in which of the captured streams, and after which nodes."""

    run: Run
    touches: tuple[int, ...]
    what: str
    stream: int
    after: tuple[int, ...]
    has_steps: bool = False
    """Whether it does several things in turn, as loops and branches do."""


@dataclass(slots=True, eq=False)
class _Capture:
    """What was put into captured streams so far.

    `frontiers` has, per stream, the nodes that what comes next in it follows; `events` those of the
    streams in which they were recorded.
    """

    origin: int
    nodes: list[_Node] = field(default_factory=list)
    frontiers: dict[int, set[int]] = field(default_factory=dict)
    events: dict[int, set[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """Nodes, and a lane for each stream that was captured."""

    nodes: tuple[_Node, ...]
    lanes: dict[int, _Lane]


@final
class Queues:
    """The streams, events and graphs of a device; raises EmulationError for wrong uses."""

    def __init__(self, seed: int) -> None:
        self.shadow = Shadow()
        self._random = Random(seed)
        self._numbers = count(1)
        self._lanes: list[_Lane] = []
        self._streams: dict[int, _Lane] = {}
        self._events: dict[int, tuple[_Work, Clock] | None] = {}
        self._graphs: dict[int, _Graph] = {}
        self._capture: _Capture | None = None
        self._host = np.zeros(MOST_STREAMS, np.int64)
        """What the host has waited for."""

    def stream(self) -> int:
        """Return a new stream."""
        number = next(self._numbers)
        self._streams[number] = self._lane()
        return number

    def _lane(self) -> _Lane:
        if len(self._lanes) == MOST_STREAMS:
            raise EmulationError(f"more than {MOST_STREAMS} streams")
        speed = self._random.choice(_SPEEDS)
        self._lanes.append(_Lane(len(self._lanes), speed, self._host.copy()))
        return self._lanes[-1]

    def event(self) -> int:
        """Return a new event."""
        number = next(self._numbers)
        self._events[number] = None
        return number

    def pending(self) -> list[tuple[int, ...]]:
        """Return the addresses that work touches which is not done."""
        return [x.touches for lane in self._lanes for x in lane.queue]

    # -- putting work ----------------------------------------------------------------------------

    def put(self, stream: int, run: Run, touches: tuple[int, ...], what: str) -> None:
        """Put work into a stream, or into what is captured of it."""
        capture = self._capture
        if capture is None or stream not in capture.frontiers:
            self._put_now(self._streams[stream], run, touches, what, ())
            return
        after = capture.frontiers[stream]
        capture.nodes.append(_Node(run, touches, what, stream, tuple(sorted(after))))
        capture.frontiers[stream] = {len(capture.nodes) - 1}

    def _put_now(
        self, lane: _Lane, run: Run, touches: tuple[int, ...], what: str, after: tuple[_Work, ...]
    ) -> _Work:
        np.maximum(lane.clock, self._host, out=lane.clock)
        moment = self.shadow.moment(lane.number, lane.clock, what)
        return self._queued(lane, _Work(lambda: run(moment), touches, after))

    def _queued(self, lane: _Lane, work: _Work) -> _Work:
        lane.queue.append(work)
        while self._random.random() < _EAGERNESS and self._advance():
            pass
        return work

    def record(self, event: int, stream: int) -> None:
        """Have an event happen once what is in a stream now is done."""
        if self._capture is not None and stream in self._capture.frontiers:
            self._capture.events[event] = set(self._capture.frontiers[stream])
            return
        lane = self._streams[stream]
        self._events[event] = self._queued(lane, _Work(_nothing)), lane.clock.copy()

    def wait(self, event: int, stream: int) -> None:
        """Have what follows in a stream wait for an event; one never recorded has happened."""
        capture = self._capture
        if capture is not None and event in capture.events:
            capture.frontiers.setdefault(stream, set()).update(capture.events[event])
            return
        if capture is not None and stream in capture.frontiers:
            raise EmulationError("a captured stream waits for an event that was not captured")
        recorded = self._events[event]
        if recorded is not None:
            work, clock = recorded
            lane = self._streams[stream]
            np.maximum(lane.clock, clock, out=lane.clock)
            self._queued(lane, _Work(_nothing, after=(work,)))

    # -- doing it --------------------------------------------------------------------------------

    def synchronize(self, stream: int) -> None:
        """Return once all of a stream is done."""
        if self._capture is not None:
            raise EmulationError("a stream is waited for while work is captured")
        lane = self._streams[stream]
        while lane.queue:
            self._advance()
        np.maximum(self._host, lane.clock, out=self._host)
        if self.shadow.is_full and all((x.clock <= self._host).all() for x in self._lanes):
            self.shadow.forget()
            for clock in (self._host, *[x.clock for x in self._lanes]):
                clock[:] = 0

    def _advance(self) -> bool:
        """Do what is first in some stream, if that may run; return whether anything could."""
        ready = [x for x in self._lanes if x.queue and x.queue[0].may_run]
        if not ready:
            return False
        lane = self._random.choices(ready, [x.speed for x in ready])[0]
        work = lane.queue.popleft()
        work.is_done, work.after = True, ()
        work.run()
        return True

    # -- graphs ----------------------------------------------------------------------------------

    def capture_steps(
        self, stream: int, bodies: Sequence[Callable[[int], None]], run: Steps, what: str
    ) -> None:
        """Put a loop or branches into what is captured: `run` says which bodies run, and when.

        What a body puts into the stream that it is given runs in turn.
        """
        outer = self._capture
        if outer is None or stream not in outer.frontiers:
            raise EmulationError(f"{what} outside of a capture")
        made: list[list[_Node]] = []
        for body in bodies:
            inner = next(self._numbers)
            self._capture = _Capture(inner, frontiers={inner: set()})
            try:
                body(inner)
                made.append(self._capture.nodes)
            finally:
                self._capture = outer

        def all_of(moment: WatchedMoment) -> None:
            for number in run(moment):
                for node in made[number]:
                    self.shadow.settle(moment)
                    node.run(moment)
                self.shadow.settle(moment)

        touched = tuple([x for nodes in made for node in nodes for x in node.touches])
        after = tuple(sorted(outer.frontiers[stream]))
        outer.nodes.append(_Node(all_of, touched, what, stream, after, has_steps=True))
        outer.frontiers[stream] = {len(outer.nodes) - 1}

    def begin_capture(self, stream: int) -> None:
        """Capture what is put into a stream from now on, and into those that wait for it."""
        if self._capture is not None:
            raise EmulationError("work is captured already")
        self._capture = _Capture(stream, frontiers={stream: set()})

    def end_capture(self, stream: int) -> int:
        """Return what was captured since, as a graph; all of it must be joined in the stream."""
        capture, self._capture = self._capture, None
        if capture is None or capture.origin != stream:
            raise EmulationError("a capture ends in a stream in which it did not begin")
        joined, stack = set[int](), list(capture.frontiers[stream])
        while stack:
            node = stack.pop()
            if node not in joined:
                joined.add(node)
                stack += capture.nodes[node].after
        lost = [x.what for i, x in enumerate(capture.nodes) if i not in joined]
        if lost:
            raise EmulationError(f"a capture ends and does not wait for {lost[0]}")
        number = next(self._numbers)
        lanes = {x: self._lane() for x in sorted({y.stream for y in capture.nodes})}
        self._graphs[number] = _Graph(tuple(capture.nodes), lanes)
        return number

    def launch(self, graph: int, stream: int) -> None:
        """Put all work of a graph into a stream, as one piece of work for those outside."""
        found, lane = self._graphs[graph], self._streams[stream]
        np.maximum(lane.clock, self._host, out=lane.clock)
        begin = self._queued(lane, _Work(_nothing))
        start = lane.clock.copy()
        made: list[tuple[_Work, Clock]] = []
        for node in found.nodes:
            own = found.lanes[node.stream]
            own.clock[:] = start
            for x in node.after:
                np.maximum(own.clock, made[x][1], out=own.clock)
            if node.has_steps:  # The number of what it has done so far.
                self.shadow.moment(own.number, own.clock, node.what)
            after = (begin, *[made[x][0] for x in node.after])
            work = self._put_now(own, node.run, node.touches, node.what, after)
            made.append((work, own.clock.copy()))
            np.maximum(lane.clock, own.clock, out=lane.clock)
        self._queued(lane, _Work(_nothing, after=tuple([x for x, _ in made])))

    def close(self) -> None:
        """Forget all work."""
        self._lanes, self._streams, self._events, self._graphs = [], {}, {}, {}


def _nothing() -> None:
    """Work that only marks a place."""
