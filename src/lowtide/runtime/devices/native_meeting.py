"""Machine code by which devices meet: those that come wait, and the last one to come goes on.

A device writes down where it waits. The one that finds all others of its group there takes them: it
does the work of all and lets them go, or lets them go to do their parts at once, after which all
wait until the last part is done. Until it is taken a device may leave, because the meeting failed,
time is over or a signal came; after that it may not, since others read its buffers.

Threads sleep by futexes; none spins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lowtide.llvm.callee import parameters, pointed
from lowtide.llvm.function import Function, Integer
from lowtide.runtime.cpu.looking import CLOCK_MONOTONIC, LOOK_WORK, STATUS, clock
from lowtide.runtime.cpu.system import System
from lowtide.runtime.devices.block import (
    AREA,
    AT,
    BY_DEADLOCK,
    BY_PYTHON,
    BY_TIME,
    COME,
    COUNT,
    DEVICE_BYTES,
    DEVICES,
    DIVIDED,
    DONE,
    ENDED,
    FAILED,
    LOCK,
    MEETING,
    NUMBER,
    PATIENCE,
    PENDING,
    RELEASED,
    SCRATCH,
    SEAT_BYTES,
    SEATS,
    WAITING,
    WAS_AT,
    WORKSPACE,
)

SLICE: Final = 100_000_000
"""Nanoseconds after which a device that waits looks whether the meeting failed or a signal came."""

UNMET: Final = 2
"""What a run returns that ended because its meeting failed."""


class MeetingCode:
    """The functions of the runtime about meetings; `exchange` is what a run calls."""

    def __init__(self, system: System, look: Function) -> None:
        self.system = system
        self.lock = self._lock()
        self.unlock = self._unlock()
        self.release = self._release()
        self.fail_locked = self._fail_locked()
        self.share = self._share()
        self.wait = self._wait(look)
        self.exchange = self._exchange()
        self.fail = self._fail()
        self.leave = self._leave()

    @property
    def functions(self) -> list[Function]:
        """All of them."""
        return [
            *(self.lock, self.unlock, self.release, self.fail_locked, self.share, self.wait),
            *(self.exchange, self.fail, self.leave),
        ]

    # -- the lock --------------------------------------------------------------------------------

    def _lock(self) -> Function:
        """Write `void lock_meeting(ptr word)`; the word is 0, 1, or 2 where others may wait."""
        f = Function("lock_meeting", parameters(word="ptr"), linkage="internal")
        f.do("br label %first")
        f.label("first")
        swap = f.op("cmpxchg ptr %word, i32 0, i32 1 acquire monotonic")
        mine = f.op(f"extractvalue {{ i32, i1 }} {swap}, 1")
        f.do(f"br i1 {mine}, label %mine, label %again")
        f.label("again")
        before = f.op("atomicrmw xchg ptr %word, i32 2 acquire")
        f.do(f"br i1 {f.op(f'icmp eq i32 {before}, 0')}, label %mine, label %sleep")
        f.label("sleep")
        self.system.wait(f, "%word", "2")
        f.do("br label %again")
        f.label("mine")
        return f

    def _unlock(self) -> Function:
        """Write `void unlock_meeting(ptr word)`."""
        f = Function("unlock_meeting", parameters(word="ptr"), linkage="internal")
        before = f.op("atomicrmw xchg ptr %word, i32 0 release")
        with f.when(f.op(f"icmp eq i32 {before}, 2")):
            self.system.wake(f, "%word", "1")
        return f

    @contextmanager
    def locked(self, f: Function, meeting: str) -> Iterator[None]:
        """Write what runs while the meeting is locked, and falls through to its end."""
        word = f.gep(meeting, LOCK)
        f.call(self.lock, [word])
        yield
        f.call(self.unlock, [word])

    # -- parts -----------------------------------------------------------------------------------

    def _release(self) -> Function:
        """Write `void release_seat(ptr seat, i32 how)`, which lets a device go that waits."""
        f = Function("release_seat", parameters(seat="ptr", how="i32"), linkage="internal")
        word = f.gep("%seat", RELEASED)
        f.do(f"store atomic i32 %how, ptr {word} release, align 4")
        self.system.wake(f, word, "1")
        return f

    def _fail_locked(self) -> Function:
        """Write `void fail_locked(ptr meeting, i64 why)`: notes where devices wait, wakes them."""
        f = Function("fail_locked", parameters(meeting="ptr", why="i64"), linkage="internal")
        place = f.gep("%meeting", FAILED)
        with f.when(f.compare("eq", f.load("i64", place, 8), 0)):
            f.do(f"store atomic i64 %why, ptr {place} release, align 8")
            count = f.load("i64", f.gep("%meeting", COUNT), 8)
            with f.loop(0, count) as each:
                seat = _seat(f, "%meeting", each.index)
                f.store("ptr", f.load("ptr", f.gep(seat, AT), 8), f.gep(seat, WAS_AT), 8)
                self.system.wake(f, f.gep(seat, RELEASED), "1")
        return f

    def _share(self) -> Function:
        """Write `void share(ptr meeting, ptr runs, ptr area, ptr scratch)`: kernels run."""
        given = parameters(meeting="ptr", runs="ptr", area="ptr", scratch="ptr")
        f = Function("share", given, linkage="internal")
        start, count = f.gep("%runs", 8), f.load("i64", "%runs", 8)
        with f.loop(0, count, carry=[("ptr", start)]) as each:
            run = each.values[0]
            buffers = f.load("i64", f.gep(run, 24), 8)
            with f.loop(0, buffers) as buffer:
                pick = f.gep(run, f.add(f.mul(buffer.index, 16), 32))
                device, slot = f.load("i64", pick, 8), f.load("i64", f.gep(pick, 8), 8)
                place = f.gep("%area", buffer.index, "i64")
                f.store("i64", slot, place, 8)
                with f.when(f.compare("sge", device, 0)):
                    seat = _seat(f, "%meeting", device)
                    workspace = f.load("ptr", f.gep(seat, WORKSPACE), 8)
                    f.store("i64", f.load("i64", f.gep(workspace, slot, "i64"), 8), place, 8)
            function = pointed(f.load("ptr", run, 8), "void", "ptr", "ptr", "i64", "i64", "i64")
            begin, end = f.load("i64", f.gep(run, 8), 8), f.load("i64", f.gep(run, 16), 8)
            with f.when(f.compare("slt", begin, end)):
                f.call(function, ["%area", "%scratch", begin, end, 0])
            each.next = [f.gep(run, f.add(f.mul(buffers, 16), 32))]
        return f

    def _wait(self, look: Function) -> Function:
        """Write `i64 wait_to_be_met(ptr seat, ptr exchange, ptr state)`: 0, or why it ends."""
        given = parameters(seat="ptr", exchange="ptr", state="ptr")
        f = Function("wait_to_be_met", given, "i64", linkage="internal")
        word = f.gep("%seat", RELEASED)
        meeting = f.load("ptr", f.gep("%seat", MEETING), 8)
        patience = f.load("i64", f.gep(meeting, PATIENCE), 8)
        start = clock(f, CLOCK_MONOTONIC)
        time = f.stack("i64", 2, 8)
        f.store("i64", 0, time, 8)
        f.store("i64", SLICE, f.gep(time, 8), 8)
        why = f.stack("i64", 1, 8)
        f.do("br label %wait")
        f.label("wait")
        self._go_if_released(f, word, "met", "sleep")
        f.label("sleep")
        self.system.wait_for(f, word, "0", time)
        self._go_if_released(f, word, "met", "consider")
        f.label("consider")
        waited = f.sub(clock(f, CLOCK_MONOTONIC), start)
        with f.when(f.compare("sgt", waited, patience)), self.locked(f, meeting):
            is_there = f.load("ptr", f.gep("%seat", AT), 8)
            with f.when(f.op(f"icmp eq ptr {is_there}, %exchange")):
                f.call(self.fail_locked, [meeting, BY_TIME])
        failed = f.op(f"load atomic i64, ptr {f.gep(meeting, FAILED)} acquire, align 8")
        ended = f.call(look, ["%state", LOOK_WORK + 1])
        f.store("i64", f.select(f.compare("ne", failed, 0), "i64", UNMET, ended), why, 8)
        goes = f.compare("ne", f.load("i64", why, 8), 0)
        f.do(f"br i1 {goes}, label %go, label %wait")
        f.label("go")
        f.call(self.lock, [f.gep(meeting, LOCK)])
        at = f.gep("%seat", AT)
        is_free = f.op(f"icmp eq ptr {f.load('ptr', at, 8)}, %exchange")
        with f.when(is_free):
            f.store("ptr", "null", at, 8)
            _change(f, meeting, WAITING, -1)
        f.call(self.unlock, [f.gep(meeting, LOCK)])
        f.do(f"br i1 {is_free}, label %gone, label %wait")
        f.label("gone")
        f.do(f"ret i64 {f.load('i64', why, 8)}")
        f.label("met")
        f.ret("i64", "0")
        return f

    def _go_if_released(self, f: Function, word: str, yes: str, no: str) -> None:
        found = f.op(f"load atomic i32, ptr {word} acquire, align 4")
        f.do(f"br i1 {f.op(f'icmp ne i32 {found}, 0')}, label %{yes}, label %{no}")

    # -- the exchange ----------------------------------------------------------------------------

    def _exchange(self) -> Function:
        """Write `i64 exchange(ptr exchange, ptr workspace, ptr seat, ptr state)`.

        It returns what the run is to return, other than 0 where it is to end.
        """
        given = parameters(exchange="ptr", workspace="ptr", seat="ptr", state="ptr")
        f = Function("exchange", given, "i64")
        meeting = f.load("ptr", f.gep("%seat", MEETING), 8)
        group, runs = self._of_device(f, f.load("i64", f.gep("%seat", NUMBER), 8))
        size = f.load("i64", group, 8)
        area = f.gep("%workspace", f.load("i64", f.gep("%exchange", AREA), 8), "i64")
        slot = f.load("i64", f.gep("%exchange", SCRATCH), 8)
        scratch = f.load("ptr", f.gep("%workspace", slot, "i64"), 8)
        divided = f.compare("ne", f.load("i64", f.gep("%exchange", DIVIDED), 8), 0)
        lock = f.gep(meeting, LOCK)
        f.call(self.lock, [lock])
        f.store("ptr", "%workspace", f.gep("%seat", WORKSPACE), 8)
        f.do(f"store atomic i32 0, ptr {f.gep('%seat', RELEASED)} monotonic, align 4")
        failed = f.compare("ne", f.load("i64", f.gep(meeting, FAILED), 8), 0)
        f.do(f"br i1 {failed}, label %failed, label %come")

        f.label("come")
        missing = self._missing(f, meeting, group, size)
        f.do(f"br i1 {f.compare('eq', missing, 0)}, label %last, label %early")

        f.label("last")
        with self._others(f, meeting, group, size) as other:
            f.store("ptr", "null", f.gep(other, AT), 8)
        _change(f, meeting, WAITING, f.sub(1, size))
        f.call(self.unlock, [lock])
        f.do(f"br i1 {divided}, label %begin, label %all")
        f.label("all")
        with f.loop(1, f.add(size, 1)) as each:
            member = f.load("i64", f.gep(group, each.index, "i64"), 8)
            f.call(self.share, [meeting, self._of_device(f, member)[1], area, scratch])
        with self._others(f, meeting, group, size) as other:
            f.call(self.release, [other, COME])
        f.do("br label %end")
        f.label("begin")
        first = _seat(f, meeting, f.load("i64", f.gep(group, 8), 8))
        pending = f.gep(first, PENDING)
        f.store("i32", f.op(f"trunc i64 {size} to i32"), pending, 4)
        with self._others(f, meeting, group, size) as other:
            f.call(self.release, [other, COME])
        f.do("br label %part")

        f.label("early")
        f.store("ptr", "%exchange", f.gep("%seat", AT), 8)
        _change(f, meeting, WAITING, 1)
        self._look_for_deadlock(f, meeting)
        f.call(self.unlock, [lock])
        ended = f.call(self.wait, ["%seat", "%exchange", "%state"])
        f.do(f"br i1 {f.compare('ne', ended, 0)}, label %left, label %met")
        f.label("met")
        f.do(f"br i1 {divided}, label %part, label %end")

        f.label("part")
        f.call(self.share, [meeting, runs, area, scratch])
        first = _seat(f, meeting, f.load("i64", f.gep(group, 8), 8))
        before = f.op(f"atomicrmw sub ptr {f.gep(first, PENDING)}, i32 1 acq_rel")
        f.do(f"br i1 {f.op(f'icmp eq i32 {before}, 1')}, label %finish, label %rest")
        f.label("finish")
        with self._others(f, meeting, group, size) as other:
            f.call(self.release, [other, DONE])
        f.do("br label %end")
        f.label("rest")
        word = f.gep("%seat", RELEASED)
        found = f.op(f"load atomic i32, ptr {word} acquire, align 4")
        f.do(f"br i1 {f.op(f'icmp eq i32 {found}, {DONE}')}, label %end, label %sleep")
        f.label("sleep")
        self.system.wait(f, word, f.op(f"zext i32 {found} to i64"))
        f.do("br label %rest")

        f.label("failed")
        f.call(self.unlock, [lock])
        f.do("br label %unmet")
        f.label("left")
        f.do(f"br i1 {f.compare('eq', ended, UNMET)}, label %unmet, label %end")
        f.label("unmet")
        f.store("i64", UNMET, f.gep("%state", STATUS), 8)
        f.do("br label %end")
        f.label("end")
        f.ret("i64", f.load("i64", f.gep("%state", STATUS), 8))
        return f

    def _of_device(self, f: Function, number: Integer) -> tuple[str, str]:
        """The group and the runs of a device in `%exchange`."""
        entry = f.gep("%exchange", f.add(f.mul(number, DEVICE_BYTES), DEVICES))
        return f.load("ptr", entry, 8), f.load("ptr", f.gep(entry, 8), 8)

    def _missing(self, f: Function, meeting: str, group: str, size: str) -> str:
        """How many devices of a group, but for the own one, do not wait at `%exchange`."""
        with f.loop(1, f.add(size, 1), carry=[("i64", "0")]) as each:
            seat = _seat(f, meeting, f.load("i64", f.gep(group, each.index, "i64"), 8))
            elsewhere = f.op(f"icmp ne ptr {f.load('ptr', f.gep(seat, AT), 8)}, %exchange")
            other = f.op(f"icmp ne ptr {seat}, %seat")
            one = f.op(f"zext i1 {f.op(f'and i1 {elsewhere}, {other}')} to i64")
            each.next = [f.op(f"add i64 {each.values[0]}, {one}")]
        return each.results[0]

    @contextmanager
    def _others(self, f: Function, meeting: str, group: str, size: str) -> Iterator[str]:
        """Write what is done with the seat of each device of a group but the own one."""
        with f.loop(1, f.add(size, 1)) as each:
            seat = _seat(f, meeting, f.load("i64", f.gep(group, each.index, "i64"), 8))
            with f.when(f.op(f"icmp ne ptr {seat}, %seat")):
                yield seat

    # -- the ends --------------------------------------------------------------------------------

    def _look_for_deadlock(self, f: Function, meeting: str) -> None:
        """Fail where some wait and all that do not have ended."""
        waiting = f.load("i64", f.gep(meeting, WAITING), 8)
        ended = f.load("i64", f.gep(meeting, ENDED), 8)
        count = f.load("i64", f.gep(meeting, COUNT), 8)
        none_left = f.compare("eq", f.add(waiting, ended), count)
        with f.when(f.op(f"and i1 {none_left}, {f.compare('ne', waiting, 0)}")):
            f.call(self.fail_locked, [meeting, BY_DEADLOCK])

    def _fail(self) -> Function:
        """Write `void fail_meeting(ptr meeting)`, for a failure of which Python knows."""
        f = Function("fail_meeting", parameters(meeting="ptr"))
        with self.locked(f, "%meeting"):
            f.call(self.fail_locked, ["%meeting", BY_PYTHON])
        return f

    def _leave(self) -> Function:
        """Write `void leave_meeting(ptr seat)`, for a device that has ended."""
        f = Function("leave_meeting", parameters(seat="ptr"))
        meeting = f.load("ptr", f.gep("%seat", MEETING), 8)
        with self.locked(f, meeting):
            _change(f, meeting, ENDED, 1)
            self._look_for_deadlock(f, meeting)
        return f


def _seat(f: Function, meeting: str, number: Integer) -> str:
    """The address of the seat of a device."""
    return f.gep(meeting, f.add(f.mul(number, SEAT_BYTES), SEATS))


def _change(f: Function, meeting: str, offset: int, by: Integer) -> None:
    """Add to a word of a locked meeting."""
    place = f.gep(meeting, offset)
    f.store("i64", f.op(f"add i64 {f.load('i64', place, 8)}, {by}"), place, 8)
