"""One run of a program on several devices, each a thread, which meet in its collectives."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, final

import numpy as np

from lowtide.ir.errors import InputError, LowtideError
from lowtide.native import view
from lowtide.records import dataclass
from lowtide.runtime.cpu.native import native
from lowtide.runtime.devices import block
from lowtide.runtime.devices.collective_block import CollectiveBlock

TIMEOUT_SECONDS: Final = 300.0
"""How long a device waits for others, unless a rendezvous says otherwise."""

_FOR_EVER: Final = 2**62
"""Nanoseconds that never go by."""


class RendezvousError(LowtideError):
    """A run on several devices came to no end: one failed, or they wait for one another."""


class ProgramOfDevices(Protocol):
    """A program that runs on `replicas` times `partitions` devices."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def replicas(self) -> int:
        """How many replicas run it."""

    @property
    def partitions(self) -> int:
        """How many partitions each replica has."""

    @property
    def devices(self) -> int:
        """How many devices run it at once."""

    @property
    def first_collective(self) -> str:
        """The name of the first instruction that needs a rendezvous of all devices, or ""."""


@dataclass(frozen=True, slots=True)
class Participant:
    """A device of a run: `address` is that of its words."""

    rendezvous: DeviceRendezvous
    number: int
    address: int


class _Threads(threading.local):
    participant: Participant | None = None


_threads: Final = _Threads()


def current_participant() -> Participant | None:
    """Return which device the calling thread is, None where it is none."""
    return _threads.participant


@final
class DeviceRendezvous:
    """One run of one program on all of its devices.

    The device of a replica and a partition has the number replica times partitions plus partition.
    A device that waits for others longer than `timeout_seconds` fails (None: it waits for ever).
    Where one fails, all that wait, or come to wait, raise RendezvousError.
    """

    def __init__(
        self, replicas: int, partitions: int, *, timeout_seconds: float | None = TIMEOUT_SECONDS
    ) -> None:
        if replicas < 1 or partitions < 1:
            raise InputError(f"a rendezvous has one device at least, not {replicas} x {partitions}")
        if timeout_seconds is not None and not timeout_seconds > 0:
            raise InputError(f"timeout_seconds is more than 0, or None; found {timeout_seconds}")
        self.replicas = replicas
        self.partitions = partitions
        self.timeout_seconds = timeout_seconds
        self._turn = threading.Lock()
        self._taken: set[int] = set()
        self._failure = ""
        self.shown: list[tuple[int, ...]] = [()] * self.count
        """By device the addresses of its buffers, where Python hands them to the others."""
        self._places: dict[str, CollectiveBlock] = {}
        size = ctypes.sizeof(block.RendezvousRecord) + self.count * ctypes.sizeof(
            block.ParticipantRecord
        )
        self._words = np.zeros(size // 8, np.int64)
        self._address = int(self._words.ctypes.data)
        self._block = view(block.RendezvousRecord, self._address)
        patience = _FOR_EVER if timeout_seconds is None else timeout_seconds * 1e9
        self._block.count, self._block.patience = self.count, int(min(patience, _FOR_EVER))
        for number in range(self.count):
            participant = self._participant(number)
            participant.rendezvous, participant.number = self._address, number

    def _participant(self, number: int) -> Any:
        begin = self._address + ctypes.sizeof(block.RendezvousRecord)
        return view(
            block.ParticipantRecord, begin + number * ctypes.sizeof(block.ParticipantRecord)
        )

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
        if _threads.participant is not None:
            raise InputError("this thread is a device of a run already")
        with self._turn:
            if number in self._taken:
                raise InputError(f"device {number} has run already: make a new DeviceRendezvous")
            self._taken.add(number)
        address = ctypes.addressof(self._participant(number))
        _threads.participant = Participant(self, number, address)
        try:
            yield
        except BaseException as error:
            if not isinstance(error, RendezvousError):
                self.fail(f"device {number} failed: {type(error).__name__}: {error}")
            raise
        finally:
            _threads.participant = None
            native().leave_rendezvous(address)

    def place(self, name: str, made: Callable[[], CollectiveBlock]) -> CollectiveBlock:
        """Return where the devices of this run meet in a collective by name, made by the first."""
        with self._turn:
            if name not in self._places:
                self._places[name] = made()
            return self._places[name]

    def fail(self, why: str) -> None:
        """End the run: all devices that wait, or come to wait, raise RendezvousError."""
        with self._turn:
            self._failure = self._failure or why
        native().fail_rendezvous(self._address)

    def error(self, collectives: Mapping[int, CollectiveBlock]) -> RendezvousError:
        """Return why the rendezvous failed; `collectives` are those of the program, by address."""
        why = int(self._block.failed)
        if why == block.BY_PYTHON:
            return RendezvousError(self._failure)
        waits = "; ".join(self._waits(collectives))
        if why == block.BY_TIME:
            return RendezvousError(f"devices waited for {self.timeout_seconds} s: {waits}")
        return RendezvousError(f"devices wait for others that never come: {waits}")

    def _waits(self, collectives: Mapping[int, CollectiveBlock]) -> Iterator[str]:
        """Which device waited at which instruction for which others when the rendezvous failed."""
        places = [int(self._participant(x).waited_at) for x in range(self.count)]
        for number, place in enumerate(places):
            if place in collectives:
                found = collectives[place]
                group = found.collective.group_of(number)
                missing = ", ".join([str(x) for x in group if places[x] != place])
                yield f"device {number} waits at %{found.name} for {missing}"


def participant_for(program: ProgramOfDevices) -> Participant:
    """Return which device of a program the calling thread is; raises InputError for none."""
    participant: Participant | None = _threads.participant
    if participant is None:
        raise InputError(
            f"{program.name} runs on {program.devices} devices, which meet in "
            f"%{program.first_collective}: give lowtide.run_on_devices the arguments of each"
        )
    rendezvous = participant.rendezvous
    if (rendezvous.replicas, rendezvous.partitions) != (program.replicas, program.partitions):
        raise InputError(
            f"{program.name} runs on {program.replicas} x {program.partitions} replicas and "
            f"partitions, the rendezvous is one of {rendezvous.replicas} x {rendezvous.partitions}"
        )
    return participant


def rendezvous_error(
    program: ProgramOfDevices, collectives: Mapping[str, CollectiveBlock]
) -> RendezvousError:
    """Return the error of a run on the calling thread that ended since its rendezvous failed."""
    return participant_for(program).rendezvous.error({x.address: x for x in collectives.values()})
