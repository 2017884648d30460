"""The native half of a program's run: a table of 64-bit words is followed from its start.

Loops and conditionals are jumps in the table, so that nesting needs no stack. `table.py` writes
the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from lowtide.llvm.callee import COPY, parameters, pointed
from lowtide.llvm.function import Function, Integer
from lowtide.runtime.cpu.looking import (
    CLOCK_MONOTONIC,
    INTERRUPTED,
    RELEASE,
    STATE_WORDS,
    STATUS,
    TAKE,
    THREAD_STATE,
    begin_state,
    clock,
)
from lowtide.runtime.cpu.system import System
from lowtide.runtime.cpu.team import (
    JOB,
    LOCK,
    MEMBER_WORDS,
    OPEN,
    PENDING,
    PIECES,
    SLEEPERS,
    WAITS,
    WORKSPACE,
    call_member,
    change,
    exchange,
    load,
)


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
    EXCHANGE = 11
    """The address of an exchange, and the end of the table: the device meets others."""


CONTROL_WORDS: Final = 13
"""The block of a run: a team or null, the workspace, a record of times or null, how many workers to
wake at once; how to release and to take Python's lock (null where it is kept) and to see to
signals, the address of the number of the thread that does so, and the state of the thread while the
lock is released, else null; how to make a Python number of an address, to call an object with one
argument and to let go of one (null where nothing is called); the seat of the device, if it meets
others. The record has its capacity in pairs of words, the count, the pairs."""

NUMBER, CALL, LET_GO, SEAT = range(9, 13)
"""The words of the block about calls of Python objects, and the one about other devices."""

LOOK_WORDS: Final = 4
"""The words of a look."""

COPY_BYTES: Final = 1 << 16
"""The bytes of one unit of a copy."""


def run_function(system: System, work: Function, look: Function, exchange: Function) -> Function:
    """Write `i64 run(ptr table, ptr bases, ptr control)`, which returns 0, INTERRUPTED or UNMET."""
    f = Function("run", parameters(table="ptr", bases="ptr", control="ptr"), "i64")
    walk = _Walk(f, system, work, look, exchange)
    walk.begin()
    walk.follow()
    walk.end()
    return f


class _Walk:
    def __init__(
        self, f: Function, system: System, work: Function, look: Function, exchange: Function
    ) -> None:
        self.f = f
        self.work = work
        self.looking = look
        self.meeting = exchange
        self.system = system
        self.position = f.stack("i64", 1, 8)
        self.state = f.stack("i64", STATE_WORDS, 8)
        self.here = ""
        self.team = f.load("ptr", "%control", 8)
        self.workspace = f.load("ptr", f.gep("%control", 8), 8)
        self.shared = ""
        self.before = system.round_to_nearest(f)

    def begin(self) -> None:
        """Take the team, unless there is none or another thread has it."""
        f = self.f
        held = f.stack("i32", 1, 4)
        f.store("i32", "1", held, 4)
        f.store("i64", 0, self.position, 8)
        begin_state(f, self.state, "%control", self.looking)
        with f.when(f.op(f"icmp ne ptr {self.team}, null")):
            f.store("i32", exchange(f, self.team, LOCK, "i32", "1"), held, 4)
        self.shared = f.op(f"icmp eq i32 {f.load('i32', held, 4)}, 0")
        with f.when(self.shared):
            self.wake(f.load("i64", f.gep("%control", 24), 8))

    def wake(self, count: str) -> None:
        """Wake up to `count` of the workers that sleep."""
        f = self.f
        asleep = f.op(f"icmp sgt i32 {load(f, self.team, SLEEPERS, 'seq_cst')}, 0")
        with f.when(f.op(f"and i1 {f.compare('sgt', count, 0)}, {asleep}")):
            self.system.wake(f, f.gep(self.team, OPEN), count)

    def follow(self) -> None:
        """Write the loop over steps, and each step."""
        f = self.f
        steps: dict[Step, Callable[[], Integer]] = {
            Step.BIND: self.bind,
            Step.ALONE: self.alone,
            Step.TOGETHER: self.together,
            Step.JUMP: lambda: self.word(1),
            Step.UNLESS: self.unless,
            Step.SWITCH: self.switch,
            Step.STAMP: self.stamp,
            Step.LOOK: self.look,
            Step.HOST: self.host,
            Step.BUNDLE: self.bundle,
            Step.EXCHANGE: self.exchange,
        }
        f.do("br label %next")
        f.label("next")
        at = f.load("i64", self.position, 8)
        self.here = f.gep("%table", at, "i64")
        cases = " ".join([f"i64 {step.value}, label %step{step.value}" for step in steps])
        f.do(f"switch i64 {self.word(0)}, label %finish [ {cases} ]")
        for step, write in steps.items():
            f.label(f"step{step.value}")
            f.store("i64", write(), self.position, 8)
            f.do("br label %next")

    def end(self) -> None:
        """Give the team back, and have the thread compute as before."""
        f = self.f
        f.label("finish")
        with f.when(self.shared):
            lock = f.gep(self.team, LOCK)
            f.do(f"store atomic i32 0, ptr {lock} release, align 4")
        self.system.round_as_before(f, self.before)
        f.ret("i64", f.load("i64", f.gep(self.state, STATUS), 8))

    # -- steps: each returns the position of the next one -------------------------------------

    def word(self, number: Integer) -> str:
        """Load a word of the step."""
        return self.f.load("i64", self.f.gep(self.here, number, "i64"), 8)

    def following(self, words: Integer) -> Integer:
        """Return the position that many words further."""
        return self.f.add(self.f.load("i64", self.position, 8), words)

    def address(self, number: Integer) -> str:
        """Return the address of the slice whose allocation is word `number` of the step."""
        f = self.f
        base = f.load("ptr", f.gep("%bases", self.word(number), "i64"), 8)
        return f.gep(base, self.word(f.add(number, 1)))

    def bind(self) -> Integer:
        f = self.f
        count = self.word(1)
        with f.loop(0, count) as each:
            found = self.address(f.add(f.mul(each.index, 2), 2))
            f.store("ptr", found, f.gep(self.workspace, each.index, "i64"), 8)
        return self.following(f.add(f.mul(count, 2), 2))

    def alone(self) -> Integer:
        f = self.f
        call_member(f, f.gep(self.here, 8), self.workspace, "0", self.word(2), "0")
        return self.following(1 + MEMBER_WORDS)

    def together(self) -> Integer:
        f = self.f
        f.do(f"br i1 {self.shared}, label %share, label %own")
        f.label("share")
        job = f.gep(self.here, 16)
        f.store("ptr", job, f.gep(self.team, JOB), 8)
        f.store("ptr", self.workspace, f.gep(self.team, WORKSPACE), 8)
        pieces = self.word(2)
        f.do(f"store atomic i64 {pieces}, ptr {f.gep(self.team, PIECES)} monotonic, align 8")
        pending = f.op(f"trunc i64 {pieces} to i32")
        f.store("i32", pending, f.gep(self.team, PENDING), 4)
        every = f.op(f"xor i64 {f.op(f'shl i64 -1, {pieces}')}, -1")
        exchange(f, self.team, OPEN, "i64", every)
        self.wake(self.word(1))
        done = f.call(self.work, [self.team, 0])
        left = f.op(f"sub i32 0, {done}")
        change(f, self.team, PENDING, left)
        self.wait()
        f.do("br label %shared")
        f.label("own")
        with f.loop(0, self.word(3)) as each:
            member = f.gep(self.here, f.add(f.mul(each.index, MEMBER_WORDS), 4), "i64")
            units = f.load("i64", f.gep(member, 8), 8)
            call_member(f, member, self.workspace, "0", units, "0")
        f.do("br label %shared")
        f.label("shared")
        return self.following(f.add(f.mul(self.word(3), MEMBER_WORDS), 4))

    def wait(self) -> None:
        """Wait until no piece is pending."""
        f = self.f
        tries = f.stack("i32", 1, 4)
        f.store("i32", "0", tries, 4)
        f.do("br label %wait")
        f.label("wait")
        ready = f.op(f"icmp eq i32 {load(f, self.team, PENDING)}, 0")
        f.do(f"br i1 {ready}, label %ready, label %unready")
        f.label("unready")
        self.system.relax(f)
        tried = f.op(f"add i32 {f.load('i32', tries, 4)}, 1")
        f.store("i32", tried, tries, 4)
        with f.when(f.op(f"icmp ugt i32 {tried}, {WAITS}")):
            self.system.give_way(f)
        f.do("br label %wait")
        f.label("ready")

    def unless(self) -> Integer:
        f = self.f
        zero = f.op(f"icmp eq i8 {f.load('i8', self.address(1), 1)}, 0")
        return f.select(zero, "i64", self.word(3), self.following(4))

    def switch(self) -> Integer:
        f = self.f
        place, count = self.address(1), self.word(4)
        by_byte = f.compare("ne", self.word(3), 0)

        def from_byte() -> list[str]:
            zero = f.op(f"icmp eq i8 {f.load('i8', place, 1)}, 0")
            return [f.op(f"zext i1 {zero} to i64")]

        def from_number() -> list[str]:
            number = f.op(f"sext i32 {f.load('i32', place, 4)} to i64")
            last = f.sub(count, 1)
            return [f.select(f.compare("ult", number, count), "i64", number, last)]

        (chosen,) = f.choose(by_byte, ["i64"], from_byte, from_number)
        return self.word(f.add(chosen, 5))

    def stamp(self) -> Integer:
        f = self.f
        record = f.load("ptr", f.gep("%control", 16), 8)
        now = clock(f, CLOCK_MONOTONIC)
        count = f.load("i64", f.gep(record, 8), 8)
        slot = f.op(f"urem i64 {count}, {f.load('i64', record, 8)}")
        pair = f.gep(record, f.add(f.mul(slot, 2), 2), "i64")
        f.store("i64", self.word(1), pair, 8)
        f.store("i64", now, f.gep(pair, 8), 8)
        f.store("i64", f.add(count, 1), f.gep(record, 8), 8)
        return self.following(2)

    def look(self) -> Integer:
        f = self.f
        ended = f.call(self.looking, [self.state, self.word(1)])
        return f.select(f.compare("eq", ended, 0), "i64", self.word(2), self.word(3))

    def bundle(self) -> Integer:
        f = self.f
        function = pointed(f.load("ptr", f.gep(self.here, 8), 8), "i64", "ptr", "ptr")
        ended = f.call(function, ["%bases", self.state])
        return f.select(f.compare("eq", ended, 0), "i64", self.following(3), self.word(2))

    def exchange(self) -> Integer:
        f = self.f
        exchange = f.load("ptr", f.gep(self.here, 8), 8)
        given = [exchange, self.workspace, self.control(SEAT), self.state]
        ended = f.call(self.meeting, given)
        return f.select(f.compare("eq", ended, 0), "i64", self.following(3), self.word(2))

    def host(self) -> Integer:
        """Call a Python object, with Python's lock, and end the run where it raises."""
        f = self.f
        released = f.op(f"icmp ne ptr {self.control(THREAD_STATE)}, null")
        with f.when(released):
            f.call(pointed(self.control(TAKE), "void", "ptr"), [self.control(THREAD_STATE)])
        number = f.call(pointed(self.control(NUMBER), "ptr", "ptr"), [self.workspace])
        called = f.op(f"inttoptr i64 {self.word(1)} to ptr")
        result = f.call(pointed(self.control(CALL), "ptr", "ptr", "ptr"), [called, number])
        raised = f.op(f"icmp eq ptr {result}, null")
        let_go = pointed(self.control(LET_GO), "void", "ptr")
        f.call(let_go, [number])
        f.call(let_go, [result])
        with f.when(released):
            state = f.call(pointed(self.control(RELEASE), "ptr"), [])
            f.store("ptr", state, f.gep("%control", 8 * THREAD_STATE), 8)
        with f.when(raised):
            f.store("i64", INTERRUPTED, f.gep(self.state, STATUS), 8)
        return f.select(raised, "i64", self.word(2), self.following(3))

    def control(self, number: int) -> str:
        """Load a pointer of the control block."""
        return self.f.load("ptr", self.f.gep("%control", 8 * number), 8)


def copy_function() -> Function:
    """Write the function of a copy's phase; its buffers are source, target and the bytes."""
    given = parameters(buffers="ptr", scratch="ptr", begin="i64", end="i64", thread="i64")
    f = Function("copy", given)
    source, target = f.load("ptr", "%buffers", 8), f.load("ptr", f.gep("%buffers", 8), 8)
    size = f.load("i64", f.gep("%buffers", 16), 8)
    begin = f.mul("%begin", COPY_BYTES)
    count = f.sub(f.min(f.mul("%end", COPY_BYTES), size), begin)
    into, out = f.gep(target, begin), f.gep(source, begin)
    f.call(COPY, [into, out, count, "false"])
    return f
