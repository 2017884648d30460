"""The rendezvous of devices: one runs at a time, and waits until its group is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import final

from lowtide.evaluator.values import Value, Values
from lowtide.ir.errors import InvalidModuleError
from lowtide.ir.instruction import Instruction
from lowtide.records import dataclass

CollectiveFunction = Callable[[Values], Values]
"""From what each device of a group brings, in order of the group, to what each one receives."""


@dataclass(slots=True)
class _Arrivals:
    """The devices at one instruction, and what they bring; `results` once all are there."""

    brought: dict[int, Value] = field(default_factory=dict)
    results: dict[int, Value] = field(default_factory=dict)


@final
class Rendezvous:
    """The rendezvous of the threads of `devices` devices.

    One thread runs at a time, so that runs are equal. Where all that are left wait for others,
    no one can go on: each raises InvalidModuleError, which says who waits at which collective.
    """

    def __init__(self, devices: int) -> None:
        self._turn = threading.Condition()
        self._running = devices
        self._waiting: dict[int, str] = {}
        self._arrivals: dict[tuple[Instruction, tuple[int, ...]], _Arrivals] = {}
        self._failure: str | None = None

    def start(self) -> None:
        """Wait for the turn of the calling thread."""
        self._turn.acquire()

    def finish(self) -> None:
        """Give the turn away for good."""
        self._running -= 1
        self._look_for_deadlock()
        self._turn.release()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The turn is another thread's until the end of the block, which may wait."""
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()

    def meet(
        self,
        instruction: Instruction,
        device: int,
        group: tuple[int, ...],
        value: Value,
        collective: CollectiveFunction,
    ) -> Value:
        """Bring a value to the group, which has `device` in it; return what the device receives.

        The last one to come runs `collective`.
        """
        key = (instruction, group)
        arrivals = self._arrivals.setdefault(key, _Arrivals())
        arrivals.brought[device] = value
        if len(arrivals.brought) == len(group):
            received = collective([arrivals.brought[member] for member in group])
            arrivals.results = dict(zip(group, received, strict=True))
            del self._arrivals[key]
            for member in group:
                if self._waiting.pop(member, None) is not None:
                    self._running += 1
            self._turn.notify_all()
        else:
            self._wait(arrivals, device, f"device {device} at %{instruction.name} for {group}")
        return arrivals.results[device]

    def _wait(self, arrivals: _Arrivals, device: int, where: str) -> None:
        self._waiting[device] = where
        self._running -= 1
        self._look_for_deadlock()
        while not arrivals.results and self._failure is None:
            self._turn.wait()
        if not arrivals.results and self._failure is not None:
            raise InvalidModuleError(self._failure)

    def _look_for_deadlock(self) -> None:
        if self._running == 0 and self._waiting and self._failure is None:
            waits = "; ".join([self._waiting[device] for device in sorted(self._waiting)])
            self._failure = f"devices wait for each other: {waits}"
            self._turn.notify_all()
