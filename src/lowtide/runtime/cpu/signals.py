"""Signals during a run: now and then Python's handlers are called, and what they raise ends it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.native import (
    I32,
    Address,
    NativeItems,
    NativeRecord,
    external,
    native,
    offset,
    on_stack,
)
from lowtide.runtime.cpu.team import TeamRecord
from lowtide.runtime.devices.block import ParticipantRecord

LOOK_WORK: Final = 500_000
"""Nanoseconds of estimated work after which the clock is read."""

LOOK_PERIOD: Final = 100_000_000
"""Nanoseconds on the clock after which signals are seen to. Python's lock may take 5 ms to get."""

INTERRUPTED: Final = 1
"""What a run returns that the handler of a signal or a called object ended by an exception, which
is Python's present error."""

CLOCK_MONOTONIC: Final = 1
CLOCK_MONOTONIC_COARSE: Final = 6

_Release: TypeAlias = Callable[[], Address]
_Take: TypeAlias = Callable[[Address], None]
_Signals: TypeAlias = Callable[[], int]
_Number: TypeAlias = Callable[[NativeItems[Address]], Address]
_Call: TypeAlias = Callable[[Address, Address], Address]
_LetGo: TypeAlias = Callable[[Address], None]


class StampsRecord(NativeRecord):
    """A record of times: how many it has room for, how many came, and these behind it."""

    capacity: int
    count: int


class ControlRecord(NativeRecord):
    """The block of a run.

    It has a team or null, the workspace, a record of times or null, how many workers to wake at
    once; how to release and to take Python's lock (null where it is kept) and to see to signals,
    the number of the thread that does so, and the state of the thread while the lock is released,
    else null; how to make a Python number of an address, to call an object with one argument and to
    let go of one (null where nothing is called); the participant of the device, if it meets others;
    whether denormals are 0.
    """

    team: TeamRecord | None
    workspace: NativeItems[Address]
    stamps: StampsRecord
    wake: int
    release: _Release | None
    take: _Take | None
    signals: _Signals
    main_thread: NativeItems[int]
    thread_state: Address
    number: _Number
    call: _Call
    let_go: _LetGo
    participant: ParticipantRecord
    without_denormals: int


CONTROL_WORDS: Final = ctypes.sizeof(ControlRecord) // 8
RELEASE: Final = offset(ControlRecord, "release") // 8
THREAD_STATE: Final = offset(ControlRecord, "thread_state") // 8
PARTICIPANT: Final = offset(ControlRecord, "participant") // 8
"""Words of the block of a run."""


class RunState(NativeRecord):
    """The state of a walker.

    It has the address of `look`, the block of the run, the work since the clock was read, when
    signals were last seen to, and what the run returns.
    """

    look: Address
    control: ControlRecord
    worked: int
    looked: int
    status: int


STATE_WORDS: Final = ctypes.sizeof(RunState) // 8


class ClockTime(NativeRecord):
    """A time of the system's clocks."""

    seconds: int
    nanoseconds: int


@external
def clock_gettime(clock: I32, time: ClockTime) -> I32:
    """Read a clock."""
    raise NotImplementedError


@external
def pthread_self() -> int:
    """Return the number of the thread."""
    raise NotImplementedError


@native
def nanoseconds_of(clock: int) -> int:
    """Return the time of a clock in nanoseconds."""
    time = on_stack(ClockTime)
    clock_gettime(clock, time)
    return time.seconds * 1_000_000_000 + time.nanoseconds


@native
def monotonic_time() -> int:
    """Return the time since some moment in nanoseconds."""
    return nanoseconds_of(CLOCK_MONOTONIC)


@native
def look(state: RunState, work: int) -> int:
    """Look for signals after that many nanoseconds of work.

    It returns what the run is to return, other than 0 where it is to end.
    """
    state.worked += work
    if state.worked > LOOK_WORK:
        state.worked = 0
        if state.control.thread_state:
            look_at_clock(state)
    return state.status


@native
def look_at_clock(state: RunState) -> None:
    """See to signals where it is time for that, and this is the thread that does."""
    now, last = nanoseconds_of(CLOCK_MONOTONIC_COARSE), state.looked
    if now - last > LOOK_PERIOD:
        state.looked = now
        if last and pthread_self() == state.control.main_thread[0]:
            see_to_signals(state)


@native
def see_to_signals(state: RunState) -> None:
    """Have Python call the handlers of signals that came; end the run where one raises."""
    control = state.control
    take_lock(control)
    raised = control.signals() & 0xFFFFFFFF
    release_lock(control)
    if raised:
        state.status = INTERRUPTED


@native
def release_lock(control: ControlRecord) -> None:
    """Release Python's lock, if the block says how."""
    if control.release is not None:
        control.thread_state = control.release()


@native
def take_lock(control: ControlRecord) -> None:
    """Take Python's lock again if it was released."""
    if control.take is not None and control.thread_state:
        control.take(control.thread_state)
