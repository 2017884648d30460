"""Machine code by which devices meet: those that come wait, and the last one to come goes on.

A device writes down where it waits. The one that finds all others of its group there takes them: it
does the work of all and lets them go, or lets them go to do their parts at once, after which all
wait until the last part is done. Until it is taken a device may leave, because the meeting failed,
time is over or a signal came; after that it may not, since others read its buffers.

Threads sleep by futexes; none spins.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQ_REL,
    ACQUIRE,
    RELAXED,
    RELEASE,
    Address,
    NativeItems,
    address_of,
    array_at,
    at,
    behind,
    futex_wait,
    futex_wake,
    native,
    on_stack,
)
from lowtide.runtime.cpu.looking import LOOK_WORK, ClockTime, RunState, look, monotonic_time
from lowtide.runtime.devices.block import (
    BY_DEADLOCK,
    BY_PYTHON,
    BY_TIME,
    COME,
    DONE,
    ExchangeRecord,
    KernelRun,
    MeetingRecord,
    RunsRecord,
    SeatRecord,
    pick_of,
    seat_of,
    work_of,
)

SLICE: Final = 100_000_000
"""Nanoseconds after which a device that waits looks whether the meeting failed or a signal came."""

UNMET: Final = 2
"""What a run returns that ended because its meeting failed."""

EARLY, FAILED = 0, 3
"""What `come` returns besides COME: others are missing, or the meeting has failed."""

FREE, TAKEN, CONTENDED = 0, 1, 2
"""What the lock of a meeting is; others may wait for one that is contended."""


@native
def lock_meeting(meeting: MeetingRecord) -> None:
    """Take the lock of a meeting."""
    if meeting.lock.compare_exchange(FREE, TAKEN, ACQUIRE) != FREE:
        while meeting.lock.exchange(CONTENDED, ACQUIRE) != FREE:
            futex_wait(meeting.lock, CONTENDED)


@native
def unlock_meeting(meeting: MeetingRecord) -> None:
    """Give the lock back."""
    if meeting.lock.exchange(FREE, RELEASE) == CONTENDED:
        futex_wake(meeting.lock, 1)


@native
def release_seat(seat: SeatRecord, how: int) -> None:
    """Let a device go that waits."""
    seat.released.store(how, RELEASE)
    futex_wake(seat.released, 1)


@native
def release_others(own: SeatRecord, group: NativeItems[int], how: int) -> None:
    """Let all devices of a group go but the own one."""
    for number in range(group[0]):
        seat = seat_of(own.meeting, group[number + 1])
        if seat is not own:
            release_seat(seat, how)


@native
def fail_locked(meeting: MeetingRecord, why: int) -> None:
    """Note why a locked meeting fails and where devices wait, and wake them."""
    if not meeting.failed.load(RELAXED):
        meeting.failed.store(why, RELEASE)
        for number in range(meeting.count):
            seat = seat_of(meeting, number)
            seat.waited_at = seat.waits_at
            futex_wake(seat.released, 1)


@native
def look_for_deadlock(meeting: MeetingRecord) -> None:
    """Fail where some wait and all that do not have ended."""
    if meeting.waiting and meeting.waiting + meeting.ended == meeting.count:
        fail_locked(meeting, BY_DEADLOCK)


@native
def share(
    meeting: MeetingRecord, runs: RunsRecord, area: NativeItems[Address], scratch: Address
) -> None:
    """Run kernels."""
    run = at(KernelRun, behind(runs))
    for _ in range(runs.count):
        for number in range(run.count):
            pick = pick_of(run, number)
            area[number] = pick.slot
            if pick.device >= 0:
                area[number] = seat_of(meeting, pick.device).workspace[pick.slot]
        if run.begin < run.end:
            run.function(area, scratch, run.begin, run.end, 0)
        run = at(KernelRun, pick_of(run, run.count))


# -- waiting -------------------------------------------------------------------------------------


@native
def wait_to_be_met(seat: SeatRecord, exchange: ExchangeRecord, state: RunState) -> int:
    """Wait until others have come; return 0, or why the run ends."""
    meeting, start = seat.meeting, monotonic_time()
    time = on_stack(ClockTime)
    time.seconds, time.nanoseconds = 0, SLICE
    while True:
        if not seat.released.load(ACQUIRE):
            futex_wait(seat.released, 0, address_of(time))
        if seat.released.load(ACQUIRE):
            return 0
        if monotonic_time() - start > meeting.patience:
            fail_where_it_waits(seat, exchange)
        failed = meeting.failed.load(ACQUIRE)
        ended = look(state, LOOK_WORK + 1)
        why = UNMET if failed else ended
        if why and goes(seat, exchange):
            return why


@native
def fail_where_it_waits(seat: SeatRecord, exchange: ExchangeRecord) -> None:
    """Fail by time, unless others have come."""
    lock_meeting(seat.meeting)
    if seat.waits_at is exchange:
        fail_locked(seat.meeting, BY_TIME)
    unlock_meeting(seat.meeting)


@native
def goes(seat: SeatRecord, exchange: ExchangeRecord) -> bool:
    """Wait no more, unless others have come and read the buffers of this device."""
    lock_meeting(seat.meeting)
    is_free = seat.waits_at is exchange
    if is_free:
        seat.waits_at = None
        seat.meeting.waiting -= 1
    unlock_meeting(seat.meeting)
    return is_free


# -- the exchange --------------------------------------------------------------------------------


@native
def exchange(
    exchange: ExchangeRecord, workspace: NativeItems[Address], seat: SeatRecord, state: RunState
) -> int:
    """Meet the others of the group; return what the run is to return, 0 where it goes on."""
    own = work_of(exchange, seat.number)
    area = workspace_from(workspace, exchange.area)
    scratch = workspace[exchange.scratch]
    came = come(exchange, workspace, seat)
    if came == COME and not exchange.divided:
        for number in range(own.group[0]):
            work = work_of(exchange, own.group[number + 1])
            share(seat.meeting, work.runs, area, scratch)
        release_others(seat, own.group, COME)
        return state.status
    if came == COME:
        seat_of(seat.meeting, own.group[1]).pending.store(own.group[0], RELAXED)
        release_others(seat, own.group, COME)
    ended = UNMET if came == FAILED else 0
    if came == EARLY:
        ended = wait_to_be_met(seat, exchange, state)
    if ended == UNMET:
        state.status = UNMET
    elif not ended and exchange.divided:
        share(seat.meeting, own.runs, area, scratch)
        do_part(seat, own.group)
    return state.status


@native
def workspace_from(workspace: NativeItems[Address], word: int) -> NativeItems[Address]:
    """Return the words of a workspace from one on."""
    return array_at(int, address_of(workspace) + word * 8)


@native
def come(exchange: ExchangeRecord, workspace: NativeItems[Address], seat: SeatRecord) -> int:
    """Write down that a device waits, or take the others if it is the last one."""
    meeting, group = seat.meeting, work_of(exchange, seat.number).group
    lock_meeting(meeting)
    seat.workspace = workspace
    seat.released.store(0, RELAXED)
    result = FAILED
    if not meeting.failed.load(RELAXED):
        result = EARLY if missing(exchange, seat, group) else COME
    if result == COME:
        for number in range(group[0]):
            other = seat_of(meeting, group[number + 1])
            if other is not seat:
                other.waits_at = None
        meeting.waiting -= group[0] - 1
    elif result == EARLY:
        seat.waits_at = exchange
        meeting.waiting += 1
        look_for_deadlock(meeting)
    unlock_meeting(meeting)
    return result


@native
def missing(exchange: ExchangeRecord, own: SeatRecord, group: NativeItems[int]) -> bool:
    """Return whether a device of a group, but for the own one, does not wait at an exchange."""
    for number in range(group[0]):
        seat = seat_of(own.meeting, group[number + 1])
        if seat is not own and seat.waits_at is not exchange:
            return True
    return False


@native
def do_part(seat: SeatRecord, group: NativeItems[int]) -> None:
    """Note that the own part is done; wait until all are."""
    if seat_of(seat.meeting, group[1]).pending.add(-1, ACQ_REL) == 1:
        release_others(seat, group, DONE)
        return
    while True:
        found = seat.released.load(ACQUIRE)
        if found == DONE:
            return
        futex_wait(seat.released, found)


# -- the ends ------------------------------------------------------------------------------------


@native
def fail_meeting(meeting: MeetingRecord) -> None:
    """Fail for something of which Python knows."""
    lock_meeting(meeting)
    fail_locked(meeting, BY_PYTHON)
    unlock_meeting(meeting)


@native
def leave_meeting(seat: SeatRecord) -> None:
    """Note that a device has ended."""
    meeting = seat.meeting
    lock_meeting(meeting)
    meeting.ended += 1
    look_for_deadlock(meeting)
    unlock_meeting(meeting)
