"""What the native runtime asks of the operating system and the processor, in LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lowtide.ir.errors import UnsupportedOpError
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

FUTEX_WAIT: Final = 128
FUTEX_WAKE: Final = 129
"""Linux's operations on a futex that one process uses."""


@dataclass(frozen=True, slots=True)
class System:
    """A processor under Linux: the numbers of the system calls needed, and how a loop waits.

    `pause` is an intrinsic without result, with its arguments: some tens of cycles.
    """

    pause: str
    pause_types: tuple[str, ...]
    pause_values: tuple[str, ...]
    futex: int
    sched_yield: int

    def call(self, f: Function, number: int, *arguments: str) -> str:
        """Make a system call, given arguments with their types; return its i64."""
        f.declare("declare i64 @syscall(i64, ...)")
        given = ", ".join([f"i64 {number}", *arguments])
        return f.op(f"call i64 (i64, ...) @syscall({given})")

    def wait(self, f: Function, word: str, value: str) -> None:
        """Sleep while the i32 at `word` has a value (an i64), until woken; may return early."""
        self.call(f, self.futex, f"ptr {word}", f"i64 {FUTEX_WAIT}", f"i64 {value}", "i64 0")

    def wake(self, f: Function, word: str, count: str) -> None:
        """Wake up to `count` (an i64) of the threads that sleep at a word."""
        self.call(f, self.futex, f"ptr {word}", f"i64 {FUTEX_WAKE}", f"i64 {count}", "i64 0")

    def relax(self, f: Function) -> None:
        """Let some tens of cycles go by."""
        f.call("void", self.pause, self.pause_types, self.pause_values)

    def give_way(self, f: Function) -> None:
        """Let another thread have the core."""
        self.call(f, self.sched_yield)


_X86_64: Final = System("llvm.x86.sse2.pause", (), (), futex=202, sched_yield=24)
_AARCH64: Final = System("llvm.aarch64.isb", ("i32",), ("15",), futex=98, sched_yield=124)


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
