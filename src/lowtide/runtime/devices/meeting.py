"""The devices of one run of a program, each a thread, which meet in its collective operations."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, final

from lowtide.ir.errors import InputError, LowtideError
from lowtide.ir.exchange import Exchange
from lowtide.ir.literal import Array
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.devices.trades import traded

TIMEOUT_SECONDS: Final = 300.0
"""How long a device waits for others, unless a meeting says otherwise."""


class MeetingError(LowtideError):
    """A run on several devices came to no end: one failed, or they wait for one another."""


@dataclass(slots=True)
class _Point:
    """The devices at one collective operation, and what they bring; `received` once all came."""

    brought: dict[int, Sequence[Array]] = field(default_factory=dict)
    received: dict[int, Sequence[Array]] = field(default_factory=dict)


@final
class Meeting:
    """One run of one program on all of its devices.

    The device of a replica and a partition has the number replica times partitions plus partition.
    A device that waits for others longer than `timeout_seconds` fails (None: it waits for ever).
    Where one fails, all that wait, or come to wait, raise MeetingError.
    """

    def __init__(
        self,
        replicas: int,
        partitions: int,
        *,
        timeout_seconds: float | None = TIMEOUT_SECONDS,
    ) -> None:
        if replicas < 1 or partitions < 1:
            raise InputError(f"a meeting has one device at least, not {replicas} x {partitions}")
        self.replicas = replicas
        self.partitions = partitions
        self.timeout_seconds = timeout_seconds
        self._turn = threading.Condition()
        self._seated: set[int] = set()
        self._ended: set[int] = set()
        self._waiting: dict[int, tuple[str, tuple[int, ...]]] = {}
        self._points: dict[tuple[str, tuple[int, ...]], _Point] = {}
        self._failure = ""

    @property
    def count(self) -> int:
        """How many devices there are."""
        return self.replicas * self.partitions

    @contextmanager
    def device(self, number: int) -> Iterator[None]:
        """The calling thread is a device of this run until the end of the block.

        What the block raises ends the run of all other devices. Raises InputError for a number
        that no device has, or that had its turn, and in a thread that is a device already.
        """
        if not 0 <= number < self.count:
            raise InputError(f"device {number} is none of the {self.count}, counted from 0")
        if current_seat() is not None:
            raise InputError("this thread is a device of a run already")
        with self._turn:
            if number in self._seated:
                raise InputError(f"device {number} has run already: make a new Meeting")
            self._seated.add(number)
        _threads.seat = Seat(self, number)
        try:
            yield
        except BaseException as error:
            if not isinstance(error, MeetingError):
                self.fail(f"device {number} failed: {type(error).__name__}: {error}")
            raise
        finally:
            _threads.seat = None
            with self._turn:
                self._ended.add(number)
                self._look_for_deadlock()

    def fail(self, why: str) -> None:
        """End the run: all devices that wait, or come to wait, raise MeetingError."""
        with self._turn:
            self._fail(why)

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        self._turn.notify_all()

    def exchange(
        self, number: int, name: str, exchange: Exchange, brought: Sequence[Array]
    ) -> Sequence[Array]:
        """Bring arrays to the collective operation of a name; return what the device receives."""
        group = exchange.group_of(number)
        with self._turn:
            self._check()
            key = (name, group)
            point = self._points.setdefault(key, _Point())
            point.brought[number] = brought
            if len(point.brought) == len(group):
                received = traded(exchange, [point.brought[x] for x in group])
                point.received = dict(zip(group, received, strict=True))
                del self._points[key]
                for member in group:
                    self._waiting.pop(member, None)
                self._turn.notify_all()
            else:
                self._wait(point, number, key)
            return point.received[number]

    def _wait(self, point: _Point, number: int, key: tuple[str, tuple[int, ...]]) -> None:
        self._waiting[number] = key
        self._look_for_deadlock()
        came = self._turn.wait_for(
            lambda: bool(point.received) or bool(self._failure), self.timeout_seconds
        )
        if not came:
            self._fail(f"devices waited for {self.timeout_seconds} s: {self._waits()}")
        if not point.received:
            self._check()

    def _check(self) -> None:
        if self._failure:
            raise MeetingError(self._failure)

    def _look_for_deadlock(self) -> None:
        """Fail where those that are waited for have ended, or all wait."""
        absent = self._ended | self._waiting.keys()
        if self._waiting and not self._failure and len(absent) == self.count:
            self._fail(f"devices wait for one another: {self._waits()}")

    def _waits(self) -> str:
        """Which device waits at which collective operation for which others."""
        found = []
        for number in sorted(self._waiting):
            name, group = self._waiting[number]
            here = self._points[name, group].brought
            missing = ", ".join([str(x) for x in group if x not in here])
            found.append(f"device {number} waits at %{name} for {missing}")
        return "; ".join(found)


@dataclass(frozen=True, slots=True)
class Seat:
    """What a thread is: one device of a run."""

    meeting: Meeting
    number: int


class _Threads(threading.local):
    seat: Seat | None = None


_threads: Final = _Threads()


def current_seat() -> Seat | None:
    """Return which device the calling thread is, None where it is none."""
    return _threads.seat


def check_seat(program: NativeProgram) -> None:
    """Raise InputError unless the calling thread is a device of a run on the program's devices."""
    seat = _threads.seat
    if seat is None:
        raise InputError(
            f"{program.name} runs on {program.devices} devices, which meet in "
            f"%{program.first_exchange}: give lowtide.run_on_devices the arguments of each"
        )
    meeting = seat.meeting
    if (meeting.replicas, meeting.partitions) != (program.replicas, program.partitions):
        raise InputError(
            f"{program.name} runs on {program.replicas} x {program.partitions} replicas and "
            f"partitions, the meeting is one of {meeting.replicas} x {meeting.partitions}"
        )
