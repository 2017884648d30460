"""Calls of the native runtime to operating system and processor, in LLVM IR."""

from __future__ import annotations

from typing import Final, Protocol

from lowtide.ir.errors import UnsupportedOpError
from lowtide.llvm.callee import Callee, external, variadic
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

FUTEX_WAIT: Final = 128
FUTEX_WAKE: Final = 129
"""Linux's operations on a futex that one process uses."""


class Register(Protocol):
    """The register that says how a thread computes floating point numbers."""

    def read(self, f: Function) -> str:
        """Write code that reads it; return the value."""

    def write(self, f: Function, value: str) -> None:
        """Write code that sets it."""


class _Mxcsr:
    """That of x86-64, which is read and set through memory."""

    def read(self, f: Function) -> str:
        place = f.stack("i32", 1, 4)
        f.call(external("llvm.x86.sse.stmxcsr", "void", "ptr"), [place])
        return f.load("i32", place, 4)

    def write(self, f: Function, value: str) -> None:
        place = f.stack("i32", 1, 4)
        f.store("i32", value, place, 4)
        f.call(external("llvm.x86.sse.ldmxcsr", "void", "ptr"), [place])


class _Fpcr:
    """That of AArch64."""

    def read(self, f: Function) -> str:
        return f.call(external("llvm.aarch64.get.fpcr", "i64"), [])

    def write(self, f: Function, value: str) -> None:
        f.call(external("llvm.aarch64.set.fpcr", "void", "i64"), [value])


@dataclass(frozen=True, slots=True)
class System:
    """A processor under Linux: the numbers of the system calls needed, and how a loop waits.

    `pause`, called with `pause_values`, takes some tens of cycles. `arithmetic` is the value
    of the register that says how floating point numbers are rounded: to nearest, with denormals,
    without traps.
    """

    pause: Callee
    pause_values: tuple[str, ...]
    futex: int
    sched_yield: int
    register: Register
    arithmetic: int

    def call(self, f: Function, number: int, *arguments: tuple[str, Integer]) -> str:
        """Make a system call, given the types and values of arguments; return its i64."""
        types = tuple([type_ for type_, _ in arguments])
        return f.call(
            variadic("syscall", "i64", ("i64",), types), [number, *[x for _, x in arguments]]
        )

    def wait(self, f: Function, word: str, value: str) -> None:
        """Sleep while the i32 at `word` has a value (an i64), until woken; may return early."""
        self._futex(f, word, FUTEX_WAIT, value)

    def wait_for(self, f: Function, word: str, value: str, time: str) -> None:
        """Do so no longer than a time: the address of seconds and nanoseconds."""
        self._futex(f, word, FUTEX_WAIT, value, time)

    def wake(self, f: Function, word: str, count: str) -> None:
        """Wake up to `count` (an i64) of the threads that sleep at a word."""
        self._futex(f, word, FUTEX_WAKE, count)

    def _futex(
        self, f: Function, word: str, operation: int, number: str, time: str = "null"
    ) -> None:
        numbers: list[Integer] = [operation, number]
        self.call(f, self.futex, ("ptr", word), *[("i64", x) for x in numbers], ("ptr", time))

    def round_to_nearest(self, f: Function) -> str:
        """Have the thread compute as IEEE 754 says by default; return how it did before."""
        before = self.register.read(f)
        self.register.write(f, str(self.arithmetic))
        return before

    def round_as_before(self, f: Function, before: str) -> None:
        """Have the thread compute as it did before `round_to_nearest`."""
        self.register.write(f, before)

    def relax(self, f: Function) -> None:
        """Let some tens of cycles go by."""
        f.call(self.pause, self.pause_values)

    def give_way(self, f: Function) -> None:
        """Let another thread have the core."""
        self.call(f, self.sched_yield)


_X86_64: Final = System(
    external("llvm.x86.sse2.pause", "void"),
    (),
    futex=202,
    sched_yield=24,
    register=_Mxcsr(),
    arithmetic=0x1F80,
)
_AARCH64: Final = System(
    external("llvm.aarch64.isb", "void", "i32"),
    ("15",),
    futex=98,
    sched_yield=124,
    register=_Fpcr(),
    arithmetic=0,
)


def system_of(target: Target) -> System:
    """Return the system that a target stands for; raises UnsupportedOpError for others."""
    if "linux" in target.triple:
        if target.triple.startswith("x86_64"):
            return _X86_64
        if target.triple.startswith("aarch64"):
            return _AARCH64
    raise UnsupportedOpError(
        f"native code runs on Linux on x86-64 and AArch64, not on {target.triple}; "
        "the evaluator (--reference) runs anywhere"
    )
