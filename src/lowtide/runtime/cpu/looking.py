"""Signals during a run: now and then Python's handlers are called, and what they raise ends it."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import external, parameters, pointed
from lowtide.llvm.function import Function, Integer

RELEASE, TAKE, SIGNALS, MAIN_THREAD, THREAD_STATE = range(4, 9)
"""The words of a run's block about Python's lock."""

LOOK_WORK: Final = 500_000
"""Nanoseconds of estimated work after which the clock is read."""

LOOK_PERIOD: Final = 100_000_000
"""Nanoseconds on the clock after which signals are seen to. Python's lock may take 5 ms to get."""

INTERRUPTED: Final = 1
"""What a run returns that the handler of a signal or a called object ended by an exception, which
is Python's present error."""

CLOCK_MONOTONIC: Final = 1
CLOCK_MONOTONIC_COARSE: Final = 6

STATE_WORDS: Final = 5
_LOOK, _CONTROL, _WORKED, _LOOKED, STATUS = (8 * x for x in range(STATE_WORDS))
"""The state of a walker, in bytes from its start: the address of `look`, the block of the run, the
work since the clock was read, when signals were last seen to, and what the run returns."""


def begin_state(f: Function, state: str, control: str, look: Function) -> None:
    """Write the state at the begin of a run, whose block is `control`."""
    f.called[look] = None
    f.store("ptr", f"@{look.name}", f.gep(state, _LOOK), 8)
    f.store("ptr", control, f.gep(state, _CONTROL), 8)
    for word in (_WORKED, _LOOKED, STATUS):
        f.store("i64", 0, f.gep(state, word), 8)


def look_function() -> Function:
    """Write `i64 look(ptr state, i64 work)`, called after that many nanoseconds of work.

    It returns what the run is to return, other than 0 where it is to end.
    """
    f = Function("look", parameters(state="ptr", work="i64"), "i64", linkage="internal")
    look = _Look(f)
    worked = f.add(f.load("i64", look.worked, 8), "%work")
    f.store("i64", worked, look.worked, 8)
    with f.when(f.compare("sgt", worked, LOOK_WORK)):
        f.store("i64", 0, look.worked, 8)
        with f.when(f.op(f"icmp ne ptr {look.word(THREAD_STATE)}, null")):
            look.at_clock()
    f.ret("i64", f.load("i64", look.status, 8))
    return f


class _Look:
    def __init__(self, f: Function) -> None:
        self.f = f
        self.control = f.load("ptr", f.gep("%state", _CONTROL), 8)
        self.worked, self.looked, self.status = (
            f.gep("%state", x) for x in (_WORKED, _LOOKED, STATUS)
        )

    def at_clock(self) -> None:
        """See to signals where it is time for that, and this is the thread that does."""
        f = self.f
        now, last = clock(f, CLOCK_MONOTONIC_COARSE), f.load("i64", self.looked, 8)
        with f.when(f.compare("sgt", f.sub(now, last), LOOK_PERIOD)):
            f.store("i64", now, self.looked, 8)
            main = f.load("i64", self.word(MAIN_THREAD), 8)
            here = f.call(external("pthread_self", "i64"), [])
            with f.when(f.op(f"and i1 {f.compare('ne', last, 0)}, {f.compare('eq', here, main)}")):
                self.see_to_signals()

    def see_to_signals(self) -> None:
        """Have Python call the handlers of signals that came; end the run where one raises."""
        f = self.f
        f.call(pointed(self.word(TAKE), "void", "ptr"), [self.word(THREAD_STATE)])
        found = f.call(pointed(self.word(SIGNALS), "i32"), [])
        raised = f.op(f"icmp ne i32 {found}, 0")
        state = f.call(pointed(self.word(RELEASE), "ptr"), [])
        f.store("ptr", state, f.gep(self.control, 8 * THREAD_STATE), 8)
        with f.when(raised):
            f.store("i64", INTERRUPTED, self.status, 8)

    def word(self, number: int) -> str:
        """Load a pointer of the block of the run."""
        return self.f.load("ptr", self.f.gep(self.control, 8 * number), 8)


def clock(f: Function, number: int) -> Integer:
    """Write a look at a clock of the system; return its time in nanoseconds."""
    time = f.stack("i64", 2, 8)
    f.call(external("clock_gettime", "i32", "i32", "ptr"), [number, time])
    seconds, rest = f.load("i64", time, 8), f.load("i64", f.gep(time, 8), 8)
    return f.add(f.mul(seconds, 1_000_000_000), rest)
