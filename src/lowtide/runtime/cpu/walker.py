"""The native half of a program's run: a table of 64-bit words is followed from its start.

Loops and conditionals are jumps in the table, so that nesting needs no stack. `table.py` writes
the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

from lowtide.native import (
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    U8,
    Address,
    NativeItems,
    NativeRecord,
    address_of,
    array_at,
    at,
    behind,
    copy_bytes,
    external,
    futex_wake,
    native,
    on_stack,
    relax,
    round_as_before,
    round_to_nearest,
)
from lowtide.runtime.cpu.signals import (
    INTERRUPTED,
    ControlRecord,
    RunState,
    look,
    monotonic_time,
    release_lock,
    take_lock,
)
from lowtide.runtime.cpu.team import (
    MEMBER_WORDS,
    WAITS,
    JobRecord,
    MemberRecord,
    TeamRecord,
    call_member,
    member_of,
    work,
)
from lowtide.runtime.devices.block import CollectiveRecord
from lowtide.runtime.devices.native_rendezvous import run_collective


class Step(IntEnum):
    """What a step of a table does; the words that follow it."""

    END = 0
    """The run ends."""
    BIND = 1
    """n, then n pairs of allocation and offset: their addresses go to the workspace."""
    ALONE = 2
    """A member: the caller does all its units."""
    TOGETHER = 3
    """How many sleeping workers to wake, then a job: its pieces are shared out."""
    JUMP = 4
    """Where to go on."""
    UNLESS = 5
    """Allocation, offset, target: go on there where the byte is 0."""
    SWITCH = 6
    """Allocation, offset, whether a byte decides, n, n targets: go on at one of them."""
    STAMP = 7
    """A number: it and the time are noted."""
    LOOK = 8
    """Nanoseconds of work since the last look, as estimated, where to go on, and the end of the
    table: now and then Python sees to signals, whose handlers may end the run."""
    HOST = 9
    """A Python object and the end of the table: it is called with the address of the workspace, and
    ends the run if it raises."""
    BUNDLE = 10
    """The address of the function of a bundle, and the end of the table, where the run goes on if
    the function returns other than 0."""
    COLLECTIVE = 11
    """The address of a collective, and the end of the table: the device meets others."""


LOOK_WORDS: Final = 4
"""The words of a look."""

COPY_BYTES: Final = 1 << 16
"""The bytes of one unit of a copy."""

_Bundle: TypeAlias = Callable[[NativeItems[Address], RunState], int]


class WalkRecord(NativeRecord):
    """A run: its table, the addresses of allocations, its block, its state, its team or null."""

    table: NativeItems[int]
    bases: NativeItems[Address]
    control: ControlRecord
    state: RunState
    team: TeamRecord | None


class BundleStep(NativeRecord):
    """A step that calls a bundle."""

    step: int
    function: _Bundle
    end: int


class ByteAt(NativeRecord):
    """A byte of an array."""

    value: U8


class NumberAt(NativeRecord):
    """A number of an array."""

    value: I32


@external
def sched_yield() -> I32:
    """Let another thread have the core."""
    raise NotImplementedError


@native
def run(table: NativeItems[int], bases: NativeItems[Address], control: ControlRecord) -> int:
    """Follow a table to its end; return 0, INTERRUPTED or UNMET."""
    before = round_to_nearest(control.without_denormals)
    walk, state = on_stack(WalkRecord), on_stack(RunState)
    walk.table, walk.bases, walk.control, walk.state = table, bases, control, state
    state.look, state.control = address_of(look), control
    state.worked, state.looked, state.status = 0, 0, 0
    team = taken_team(control)
    walk.team = team
    follow(walk)
    if team is not None:
        team.lock.store(0, RELEASE)
    round_as_before(before)
    return state.status


@native
def taken_team(control: ControlRecord) -> TeamRecord | None:
    """Take the team and return it, unless there is none or another thread has it."""
    team = control.team
    if team is None or team.lock.exchange(1, SEQ_CST):
        return None
    team.without_denormals = control.without_denormals
    wake(team, control.wake)
    return team


@native
def wake(team: TeamRecord, count: int) -> None:
    """Wake up to so many of the workers that sleep."""
    if count > 0 and team.sleepers.load(SEQ_CST) > 0:
        futex_wake(team.open, count)


@native
def follow(walk: WalkRecord) -> None:
    """Do one step after the other."""
    table, position = walk.table, 0
    while True:
        match table[position]:
            case Step.BUNDLE:
                step = at(BundleStep, address_of(table) + 8 * position)
                ended = step.function(walk.bases, walk.state)
                position = step.end if ended else position + 3
            case Step.ALONE:
                member = at(MemberRecord, address_of(table) + 8 * (position + 1))
                call_member(member, walk.control.workspace, 0, member.units, 0)
                position += 1 + MEMBER_WORDS
            case Step.TOGETHER:
                position = together(walk, position)
            case Step.BIND:
                position = bind(walk, position)
            case Step.JUMP:
                position = table[position + 1]
            case Step.UNLESS:
                flag = at(ByteAt, address_in(walk, position + 1)).value
                position = position + 4 if flag else table[position + 3]
            case Step.SWITCH:
                position = table[position + 5 + branch(walk, position)]
            case Step.STAMP:
                position = stamp(walk, position)
            case Step.LOOK:
                ended = look(walk.state, table[position + 1])
                position = table[position + 3] if ended else table[position + 2]
            case Step.HOST:
                position = host(walk, position)
            case Step.COLLECTIVE:
                control = walk.control
                place = at(CollectiveRecord, table[position + 1])
                ended = run_collective(place, control.workspace, control.participant, walk.state)
                position = table[position + 2] if ended else position + 3
            case _:
                return


# -- steps: each returns the position of the next one --------------------------------------------


@native
def address_in(walk: WalkRecord, position: int) -> Address:
    """Return the address of the slice whose allocation and offset stand in the table."""
    return walk.bases[walk.table[position]] + walk.table[position + 1]


@native
def bind(walk: WalkRecord, position: int) -> int:
    """Put addresses of slices into the workspace."""
    count, workspace = walk.table[position + 1], walk.control.workspace
    for number in range(count):
        workspace[number] = address_in(walk, position + 2 + 2 * number)
    return position + 2 + 2 * count


@native
def together(walk: WalkRecord, position: int) -> int:
    """Share the pieces of a job out."""
    job = at(JobRecord, address_of(walk.table) + 8 * (position + 2))
    team = walk.team
    if team is not None:
        share_out(team, job, walk.control.workspace, walk.table[position + 1])
    else:
        for number in range(job.members):
            member = member_of(job, number)
            call_member(member, walk.control.workspace, 0, member.units, 0)
    return position + 4 + MEMBER_WORDS * job.members


@native
def share_out(
    team: TeamRecord, job: JobRecord, workspace: NativeItems[Address], woken: int
) -> None:
    """Do a job with the team."""
    team.job, team.workspace = job, workspace
    team.pieces.store(job.pieces, RELAXED)
    team.pending.store(job.pieces, RELAXED)
    team.open.exchange(~(-1 << job.pieces), SEQ_CST)
    wake(team, woken)
    team.pending.add(-work(team, 0), SEQ_CST)
    tries = 0
    while team.pending.load(ACQUIRE):
        relax()
        tries += 1
        if tries > WAITS:
            sched_yield()


@native
def branch(walk: WalkRecord, position: int) -> int:
    """Return which branch is chosen: the last one for a number that is out of range."""
    place, count = address_in(walk, position + 1), walk.table[position + 4]
    if walk.table[position + 3]:
        return 0 if at(ByteAt, place).value else 1
    number = at(NumberAt, place).value
    return number if 0 <= number < count else count - 1


@native
def stamp(walk: WalkRecord, position: int) -> int:
    """Note a number and the time."""
    stamps, now = walk.control.stamps, monotonic_time()
    pair = array_at(int, behind(stamps) + stamps.count % stamps.capacity * 16)
    pair[0], pair[1] = walk.table[position + 1], now
    stamps.count += 1
    return position + 2


@native
def host(walk: WalkRecord, position: int) -> int:
    """Call a Python object, with Python's lock, and end the run where it raises."""
    control = walk.control
    is_released = control.thread_state != 0
    if is_released:
        take_lock(control)
    number = control.number(control.workspace)
    result = control.call(walk.table[position + 1], number)
    control.let_go(number)
    control.let_go(result)
    if is_released:
        release_lock(control)
    if not result:
        walk.state.status = INTERRUPTED
        return walk.table[position + 2]
    return position + 3


@native
def copy(
    buffers: NativeItems[Address], scratch: Address, begin: int, end: int, thread: int
) -> None:
    """Copy units of bytes; the buffers are source, target and the number of bytes."""
    first = begin * COPY_BYTES
    count = min(end * COPY_BYTES, buffers[2]) - first
    copy_bytes(buffers[1] + first, buffers[0] + first, count)
