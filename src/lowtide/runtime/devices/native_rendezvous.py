"""Machine code by which devices meet: those that come wait, and the last one to come goes on.

A device writes down where it waits. The one that finds all others of its group there takes them: it
does the work of all and lets them go, or lets them go to do their parts at once, after which all
wait until the last part is done. Until it is taken a device may leave, because the rendezvous
failed, time is over or a signal came; after that it may not, since others read its buffers.

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
from lowtide.runtime.cpu.signals import LOOK_WORK, ClockTime, RunState, look, monotonic_time
from lowtide.runtime.devices.block import (
    BY_DEADLOCK,
    BY_PYTHON,
    BY_TIME,
    COME,
    DONE,
    CollectiveRecord,
    KernelRun,
    ParticipantRecord,
    RendezvousRecord,
    RunsRecord,
    participant_of,
    pick_of,
    work_of,
)

SLICE: Final = 100_000_000
"""Nanoseconds after which a device that waits looks for a signal, and for a failure of others."""

UNMET: Final = 2
"""What a run returns that ended because its rendezvous failed."""

EARLY, FAILED = 0, 3
"""What `come` returns besides COME: others are missing, or the rendezvous has failed."""

FREE, TAKEN, CONTENDED = 0, 1, 2
"""What the lock of a rendezvous is; others may wait for one that is contended."""


@native
def lock_rendezvous(rendezvous: RendezvousRecord) -> None:
    """Take the lock of a rendezvous."""
    if rendezvous.lock.compare_exchange(FREE, TAKEN, ACQUIRE) != FREE:
        while rendezvous.lock.exchange(CONTENDED, ACQUIRE) != FREE:
            futex_wait(rendezvous.lock, CONTENDED)


@native
def unlock_rendezvous(rendezvous: RendezvousRecord) -> None:
    """Give the lock back."""
    if rendezvous.lock.exchange(FREE, RELEASE) == CONTENDED:
        futex_wake(rendezvous.lock, 1)


@native
def release_participant(participant: ParticipantRecord, how: int) -> None:
    """Let a device go that waits."""
    participant.released.store(how, RELEASE)
    futex_wake(participant.released, 1)


@native
def release_others(own: ParticipantRecord, group: NativeItems[int], how: int) -> None:
    """Let all devices of a group go but the own one."""
    for number in range(group[0]):
        participant = participant_of(own.rendezvous, group[number + 1])
        if participant is not own:
            release_participant(participant, how)


@native
def fail_locked(rendezvous: RendezvousRecord, why: int) -> None:
    """Note why a locked rendezvous fails and where devices wait, and wake them."""
    if not rendezvous.failed.load(RELAXED):
        rendezvous.failed.store(why, RELEASE)
        for number in range(rendezvous.count):
            participant = participant_of(rendezvous, number)
            participant.waited_at = participant.waits_at
            futex_wake(participant.released, 1)


@native
def look_for_deadlock(rendezvous: RendezvousRecord) -> None:
    """Fail where some wait and all that do not have ended."""
    if rendezvous.waiting and rendezvous.waiting + rendezvous.ended == rendezvous.count:
        fail_locked(rendezvous, BY_DEADLOCK)


@native
def share(
    rendezvous: RendezvousRecord, runs: RunsRecord, area: NativeItems[Address], scratch: Address
) -> None:
    """Run kernels."""
    run = at(KernelRun, behind(runs))
    for _ in range(runs.count):
        for number in range(run.count):
            pick = pick_of(run, number)
            area[number] = pick.slot
            if pick.device >= 0:
                area[number] = participant_of(rendezvous, pick.device).workspace[pick.slot]
        if run.begin < run.end:
            run.function(area, scratch, run.begin, run.end, 0)
        run = at(KernelRun, pick_of(run, run.count))


# -- waiting -------------------------------------------------------------------------------------


@native
def wait_to_be_met(
    participant: ParticipantRecord, collective: CollectiveRecord, state: RunState
) -> int:
    """Wait until others have come; return 0, or why the run ends."""
    rendezvous, start = participant.rendezvous, monotonic_time()
    time = on_stack(ClockTime)
    time.seconds, time.nanoseconds = 0, SLICE
    while True:
        if not participant.released.load(ACQUIRE):
            futex_wait(participant.released, 0, address_of(time))
        if participant.released.load(ACQUIRE):
            return 0
        if monotonic_time() - start > rendezvous.patience:
            fail_where_it_waits(participant, collective)
        failed = rendezvous.failed.load(ACQUIRE)
        ended = look(state, LOOK_WORK + 1)
        why = UNMET if failed else ended
        if why and goes(participant, collective):
            return why


@native
def fail_where_it_waits(participant: ParticipantRecord, collective: CollectiveRecord) -> None:
    """Fail by time, unless others have come."""
    lock_rendezvous(participant.rendezvous)
    if participant.waits_at is collective:
        fail_locked(participant.rendezvous, BY_TIME)
    unlock_rendezvous(participant.rendezvous)


@native
def goes(participant: ParticipantRecord, collective: CollectiveRecord) -> bool:
    """Wait no more, unless others have come and read the buffers of this device."""
    lock_rendezvous(participant.rendezvous)
    is_free = participant.waits_at is collective
    if is_free:
        participant.waits_at = None
        participant.rendezvous.waiting -= 1
    unlock_rendezvous(participant.rendezvous)
    return is_free


# -- the collective ------------------------------------------------------------------------------


@native
def run_collective(
    collective: CollectiveRecord,
    workspace: NativeItems[Address],
    participant: ParticipantRecord,
    state: RunState,
) -> int:
    """Meet the others of the group; return what the run is to return, 0 where it goes on."""
    own = work_of(collective, participant.number)
    area = workspace_from(workspace, collective.area)
    scratch = workspace[collective.scratch]
    came = come(collective, workspace, participant)
    if came == COME and not collective.divided:
        for number in range(own.group[0]):
            work = work_of(collective, own.group[number + 1])
            share(participant.rendezvous, work.runs, area, scratch)
        release_others(participant, own.group, COME)
        return state.status
    if came == COME:
        participant_of(participant.rendezvous, own.group[1]).pending.store(own.group[0], RELAXED)
        release_others(participant, own.group, COME)
    ended = UNMET if came == FAILED else 0
    if came == EARLY:
        ended = wait_to_be_met(participant, collective, state)
    if ended == UNMET:
        state.status = UNMET
    elif not ended and collective.divided:
        share(participant.rendezvous, own.runs, area, scratch)
        do_part(participant, own.group)
    return state.status


@native
def workspace_from(workspace: NativeItems[Address], word: int) -> NativeItems[Address]:
    """Return the words of a workspace from one on."""
    return array_at(int, address_of(workspace) + word * 8)


@native
def come(
    collective: CollectiveRecord, workspace: NativeItems[Address], participant: ParticipantRecord
) -> int:
    """Write down that a device waits, or take the others if it is the last one."""
    rendezvous, group = participant.rendezvous, work_of(collective, participant.number).group
    lock_rendezvous(rendezvous)
    participant.workspace = workspace
    participant.released.store(0, RELAXED)
    result = FAILED
    if not rendezvous.failed.load(RELAXED):
        result = EARLY if missing(collective, participant, group) else COME
    if result == COME:
        for number in range(group[0]):
            other = participant_of(rendezvous, group[number + 1])
            if other is not participant:
                other.waits_at = None
        rendezvous.waiting -= group[0] - 1
    elif result == EARLY:
        participant.waits_at = collective
        rendezvous.waiting += 1
        look_for_deadlock(rendezvous)
    unlock_rendezvous(rendezvous)
    return result


@native
def missing(collective: CollectiveRecord, own: ParticipantRecord, group: NativeItems[int]) -> bool:
    """Return whether a device of a group, but for the own one, does not wait at a collective."""
    for number in range(group[0]):
        participant = participant_of(own.rendezvous, group[number + 1])
        if participant is not own and participant.waits_at is not collective:
            return True
    return False


@native
def do_part(participant: ParticipantRecord, group: NativeItems[int]) -> None:
    """Note that the own part is done; wait until all are."""
    if participant_of(participant.rendezvous, group[1]).pending.add(-1, ACQ_REL) == 1:
        release_others(participant, group, DONE)
        return
    while True:
        found = participant.released.load(ACQUIRE)
        if found == DONE:
            return
        futex_wait(participant.released, found)


# -- the ends ------------------------------------------------------------------------------------


@native
def fail_rendezvous(rendezvous: RendezvousRecord) -> None:
    """Fail for something of which Python knows."""
    lock_rendezvous(rendezvous)
    fail_locked(rendezvous, BY_PYTHON)
    unlock_rendezvous(rendezvous)


@native
def leave_rendezvous(participant: ParticipantRecord) -> None:
    """Note that a device has ended."""
    rendezvous = participant.rendezvous
    lock_rendezvous(rendezvous)
    rendezvous.ended += 1
    look_for_deadlock(rendezvous)
    unlock_rendezvous(rendezvous)
