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

from typing import Final

from lowtide.llvm.callee import external, parameters, pointed
from lowtide.llvm.function import Function
from lowtide.runtime.cpu.system import System

LOCK: Final = 0
OPEN: Final = 128
PENDING: Final = 256
SLEEPERS: Final = 384
JOB: Final = 512
WORKSPACE: Final = 520
THREADS: Final = 528
PIECES: Final = 536
TEAM_BYTES: Final = 640
"""Offsets in the block of a team, and its size. Words that several threads write lie 128 bytes
apart, since processors fetch lines of 64 bytes in pairs."""

SPINS: Final = 2000
"""How often a worker looks for work before it sleeps. A look takes 20 to 60 ns, so that the whole
takes about as long as to sleep and to be woken."""

WAITS: Final = 2000
"""How often the caller looks whether others are done before it gives way to other threads."""

STOP: Final = -1
"""The value of `open` that ends workers."""

MOST_PIECES: Final = 60
"""Pieces of a job, each of which has a bit: a number that most numbers of threads divide."""

MEMBER_WORDS: Final = 5
"""A member of a job: function, units, buffers, scratch, the number of the piece after its last."""


def load(f: Function, block: str, offset: int, order: str = "acquire") -> str:
    """Load an i32 of a team's block atomically."""
    return f.op(f"load atomic i32, ptr {f.gep(block, offset)} {order}, align 4")


def exchange(f: Function, block: str, offset: int, type_: str, value: str) -> str:
    """Replace a word of a team's block atomically; return what it was."""
    return f.op(f"atomicrmw xchg ptr {f.gep(block, offset)}, {type_} {value} seq_cst")


def change(f: Function, block: str, offset: int, by: str, order: str = "seq_cst") -> str:
    """Add to an i32 of a team's block; return what it was."""
    return f.op(f"atomicrmw add ptr {f.gep(block, offset)}, i32 {by} {order}")


def worker_function(system: System, work: Function) -> Function:
    """Write `ptr worker(ptr)`: it takes the address of two words: a team's block, its number."""
    f = Function("worker", parameters(given="ptr"), "ptr")
    team, thread = f.load("ptr", "%given", 8), f.load("i64", f.gep("%given", 8), 8)
    tries = f.stack("i32", 1, 4)
    system.round_to_nearest(f)
    f.do("br label %start")
    f.label("start")
    f.store("i32", "0", tries, 4)
    f.do("br label %look")
    f.label("look")
    found = f.op(f"load atomic i64, ptr {f.gep(team, OPEN)} acquire, align 8")
    f.do(f"br i1 {f.compare('eq', found, 0)}, label %idle, label %some")
    f.label("idle")
    system.relax(f)
    tried = f.op(f"add i32 {f.load('i32', tries, 4)}, 1")
    f.store("i32", tried, tries, 4)
    tired = f.op(f"icmp sgt i32 {tried}, {SPINS}")
    f.do(f"br i1 {tired}, label %sleep, label %look")
    f.label("sleep")
    change(f, team, SLEEPERS, "1")
    system.wait(f, f.gep(team, OPEN), "0")
    change(f, team, SLEEPERS, "-1")
    f.do("br label %start")
    f.label("some")
    f.do(f"br i1 {f.compare('eq', found, STOP)}, label %stop, label %work")
    f.label("work")
    done = f.call(work, [team, thread])
    left = f.op(f"sub i32 0, {done}")
    change(f, team, PENDING, left, "release")
    f.do("br label %start")
    f.label("stop")
    f.ret("ptr", "null")
    return f


def work_function(do_piece: Function) -> Function:
    """Write `i32 work(ptr team, i64 thread)`: claims and does pieces, returns how many it did."""
    given = parameters(team="ptr", thread="i64")
    f = Function("work", given, "i32", linkage="internal")
    done = f.stack("i32", 1, 4)
    f.store("i32", "0", done, 4)
    f.do("br label %claim")
    f.label("claim")
    word = f.gep("%team", OPEN)
    found = f.op(f"load atomic i64, ptr {word} monotonic, align 8")
    nothing = f.op(f"or i1 {f.compare('eq', found, 0)}, {f.compare('eq', found, STOP)}")
    f.do(f"br i1 {nothing}, label %none, label %try")
    f.label("try")
    piece = _chosen(f, found)
    rest = f.op(f"and i64 {found}, {_without(f, piece)}")
    swap = f.op(f"cmpxchg ptr {word}, i64 {found}, i64 {rest} acq_rel monotonic")
    mine = f.op(f"extractvalue {{ i64, i1 }} {swap}, 1")
    f.do(f"br i1 {mine}, label %mine, label %claim")
    f.label("mine")
    job = f.load("ptr", f.gep("%team", JOB), 8)
    workspace = f.load("ptr", f.gep("%team", WORKSPACE), 8)
    f.call(do_piece, [job, workspace, piece, "%thread"])
    more = f.op(f"add i32 {f.load('i32', done, 4)}, 1")
    f.store("i32", more, done, 4)
    f.do("br label %claim")
    f.label("none")
    f.ret("i32", f.load("i32", done, 4))
    return f


def _chosen(f: Function, open_: str) -> str:
    """The first open piece of the thread's own stretch, or the last one of all.

    The number of pieces may be that of another job, which only makes the choice a worse one.
    """
    threads = f.load("i64", f.gep("%team", THREADS), 8)
    pieces = f.op(f"load atomic i64, ptr {f.gep('%team', PIECES)} monotonic, align 8")
    begin = f.op(f"udiv i64 {f.mul('%thread', pieces)}, {threads}")
    end = f.op(f"udiv i64 {f.mul(f.add('%thread', 1), pieces)}, {threads}")
    from_begin, from_end = (f.op(f"shl i64 -1, {x}") for x in (begin, end))
    stretch = f.op(f"xor i64 {from_begin}, {from_end}")
    own = f.op(f"and i64 {open_}, {stretch}")
    first = f.call(external("llvm.cttz.i64", "i64", "i64", "i1"), [own, "false"])
    zeros = f.call(external("llvm.ctlz.i64", "i64", "i64", "i1"), [open_, "false"])
    last = f.op(f"sub i64 63, {zeros}")
    return f.select(f.compare("eq", own, 0), "i64", last, first)


def _without(f: Function, piece: str) -> str:
    """All bits but that of a piece."""
    return f.op(f"xor i64 {f.op(f'shl i64 1, {piece}')}, -1")


def piece_function() -> Function:
    """Write `void piece(ptr job, ptr workspace, i64 piece, i64 thread)`, which does one piece.

    A job is the number of its pieces, the number of its members, and the members.
    """
    given = parameters(job="ptr", workspace="ptr", piece="i64", thread="i64")
    f = Function("piece", given, linkage="internal")
    member, first = f.stack("ptr", 1, 8), f.stack("i64", 1, 8)
    f.store("ptr", f.gep("%job", 16), member, 8)
    f.store("i64", 0, first, 8)
    f.do("br label %find")
    f.label("find")
    here, begin = f.load("ptr", member, 8), f.load("i64", first, 8)
    end = f.load("i64", f.gep(here, 32), 8)
    inside = f.compare("slt", "%piece", end)
    f.do(f"br i1 {inside}, label %found, label %next")
    f.label("next")
    f.store("ptr", f.gep(here, 8 * MEMBER_WORDS), member, 8)
    f.store("i64", end, first, 8)
    f.do("br label %find")
    f.label("found")
    pieces, nth = f.sub(end, begin), f.sub("%piece", begin)
    units = f.load("i64", f.gep(here, 8), 8)
    low = f.op(f"udiv i64 {f.mul(units, nth)}, {pieces}")
    high = f.op(f"udiv i64 {f.mul(units, f.add(nth, 1))}, {pieces}")
    call_member(f, here, "%workspace", low, high, "%thread")
    return f


def take_function() -> Function:
    """Write `i64 take(ptr team)`, which locks a team; not 0 where it was locked."""
    f = Function("take", parameters(team="ptr"), "i64")
    f.ret("i64", f.op(f"zext i32 {exchange(f, '%team', LOCK, 'i32', '1')} to i64"))
    return f


def dismiss_function(system: System) -> Function:
    """Write `void dismiss(ptr team)`, which ends the workers of a team that the caller locked."""
    f = Function("dismiss", parameters(team="ptr"))
    exchange(f, "%team", OPEN, "i64", str(STOP))
    system.wake(f, f.gep("%team", OPEN), str(2**31 - 1))
    return f


def call_member(
    f: Function, member: str, workspace: str, begin: str, end: str, thread: str
) -> None:
    """Write the call of a member's function for the units from `begin` to `end`."""
    function = pointed(f.load("ptr", member, 8), "void", "ptr", "ptr", "i64", "i64", "i64")
    buffers = f.gep(workspace, f.load("i64", f.gep(member, 16), 8), "i64")
    scratch = f.load("ptr", f.gep(workspace, f.load("i64", f.gep(member, 24), 8), "i64"), 8)
    f.call(function, [buffers, scratch, begin, end, thread])
