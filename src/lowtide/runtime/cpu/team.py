"""The native half of the thread pool: workers that wait, and pieces of work that are claimed.

A thread that has work sets `job`, `pieces` and `pending`, then `open`, which has a bit for each
piece that nobody has claimed. A thread that takes a bit away by compare-and-swap has claimed the
piece. Each thread has a stretch of the pieces as its own. It is the same one in each job, so that
its core meets the same part of an array again in the next kernel. When it is done, the thread helps
at the far end of another's stretch.

A thread lowers `pending` by what it did, and the work is done when `pending` is 0. So nobody waits
for a worker that sleeps or came late, and one thread alone finishes all. A claim that succeeds is
one of the present job, whenever the thread began to look: the job cannot end before the piece is
done.

A worker sleeps by a futex on the lower half of `open` while that is 0. It counts itself into
`sleepers` first. The other side writes `open` and reads `sleepers` after that, so no wake-up is
lost.
"""

from __future__ import annotations

import ctypes
from typing import Final

from lowtide.native import (
    ACQ_REL,
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Address,
    Atomic,
    NativeItems,
    NativeRecord,
    address_of,
    array_at,
    at,
    behind,
    futex_wait,
    futex_wake,
    inline,
    leading_zeros,
    native,
    offset,
    relax,
    round_to_nearest,
    trailing_zeros,
)
from lowtide.runtime.devices.block import Kernel

SPINS: Final = 2000
"""How often a worker looks for work before it sleeps. A look takes 20 to 60 ns, so that the whole
takes about as long as to sleep and to be woken."""

WAITS: Final = 2000
"""How often the caller looks whether others are done before it gives way to other threads."""

STOP: Final = -1
"""The value of `open` that ends workers."""

MOST_PIECES: Final = 60
"""Pieces of a job, each of which has a bit: a number that most numbers of threads divide."""


EVERYBODY: Final = 2**31 - 1
"""As many threads as may be woken."""


class MemberRecord(NativeRecord):
    """A member of a job: a kernel, and the number of the piece after its last."""

    function: Kernel
    units: int
    buffers: int
    scratch: int
    end: int


class JobRecord(NativeRecord):
    """A job: how many pieces and members it has, which lie behind it."""

    pieces: int
    members: int


class TeamRecord(NativeRecord):
    """A team.

    Words that several threads write lie 128 bytes apart, since processors fetch lines of 64 bytes
    in pairs.
    """

    lock: Atomic[I32]
    apart0: NativeItems[I32] = inline(31)
    open: Atomic[int]
    apart1: NativeItems[int] = inline(15)
    pending: Atomic[I32]
    apart2: NativeItems[I32] = inline(31)
    sleepers: Atomic[I32]
    apart3: NativeItems[I32] = inline(31)
    job: JobRecord
    workspace: NativeItems[Address]
    threads: int
    pieces: Atomic[int]
    without_denormals: int
    apart4: NativeItems[int] = inline(11)


class WorkerRecord(NativeRecord):
    """What a worker is told: its team and its number."""

    team: TeamRecord
    thread: int


TEAM_BYTES: Final = ctypes.sizeof(TeamRecord)
MEMBER_WORDS: Final = ctypes.sizeof(MemberRecord) // 8
LOCK, OPEN, PENDING, SLEEPERS, THREADS = (
    offset(TeamRecord, x) for x in ("lock", "open", "pending", "sleepers", "threads")
)


@native
def worker(given: WorkerRecord) -> Address:
    """Work as a member of a team until it is dismissed."""
    team, thread = given.team, given.thread
    while True:
        tries = 0
        found = team.open.load(ACQUIRE)
        while not found and tries <= SPINS:
            relax()
            tries += 1
            found = team.open.load(ACQUIRE)
        if found == STOP:
            return 0
        if found:
            team.pending.add(-work(team, thread), RELEASE)
        else:
            team.sleepers.add(1, SEQ_CST)
            futex_wait(team.open, 0)
            team.sleepers.add(-1, SEQ_CST)


@native
def work(team: TeamRecord, thread: int) -> int:
    """Claim and do pieces; return how many. They may be of several jobs, and of several runs."""
    done, without_denormals = 0, -1
    while True:
        found = team.open.load(RELAXED)
        if found == 0 or found == STOP:
            return done
        piece = chosen(team, thread, found)
        if team.open.compare_exchange(found, found & ~(1 << piece), ACQ_REL) == found:
            if team.without_denormals != without_denormals:
                without_denormals = team.without_denormals
                round_to_nearest(without_denormals)
            do_piece(team.job, team.workspace, piece, thread)
            done += 1


@native
def chosen(team: TeamRecord, thread: int, found: int) -> int:
    """Return the first open piece of the thread's own stretch, or the last one of all.

    The number of pieces may be that of another job, which only makes the choice a worse one.
    """
    pieces = team.pieces.load(RELAXED)
    begin = thread * pieces // team.threads
    end = (thread + 1) * pieces // team.threads
    own = found & ((-1 << begin) ^ (-1 << end))
    return trailing_zeros(own) if own else 63 - leading_zeros(found)


@native
def member_of(job: JobRecord, number: int) -> MemberRecord:
    """Return a member of a job."""
    return at(MemberRecord, behind(job) + number * 8 * MEMBER_WORDS)


@native
def do_piece(job: JobRecord, workspace: NativeItems[Address], piece: int, thread: int) -> None:
    """Do one piece of a job."""
    begin, number = 0, 0
    member = member_of(job, 0)
    while piece >= member.end:
        begin = member.end
        number += 1
        member = member_of(job, number)
    pieces, nth = member.end - begin, piece - begin
    low = member.units * nth // pieces
    high = member.units * (nth + 1) // pieces
    call_member(member, workspace, low, high, thread)


@native
def call_member(
    member: MemberRecord, workspace: NativeItems[Address], begin: int, end: int, thread: int
) -> None:
    """Call the function of a member for the units from `begin` to `end`."""
    buffers = array_at(int, address_of(workspace) + 8 * member.buffers)
    member.function(buffers, workspace[member.scratch], begin, end, thread)


@native
def take(team: TeamRecord) -> int:
    """Lock a team; return other than 0 where it was locked."""
    return team.lock.exchange(1, SEQ_CST)


@native
def dismiss(team: TeamRecord) -> None:
    """End the workers of a team that the caller locked."""
    team.open.exchange(STOP, SEQ_CST)
    futex_wake(team.open, EVERYBODY)
