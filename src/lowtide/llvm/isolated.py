"""Compiling in a process of its own, which LLVM may end without ending this one.

The byte of a request says whether the module is optimized as a whole, its data is the text. The
byte of an answer says whether there is an object; its data is that, or LLVM's refusal.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Final, final

from lowtide.ir.errors import LowtideError
from lowtide.llvm.machine import CodeError, KernelCompiler
from lowtide.llvm.target import Target
from lowtide.processes.child import Answer, Child, ChildEndedError

_SERVER: Final = "lowtide.llvm.isolated:answers_of"


class CompilerEndedError(LowtideError):
    """LLVM ended the process that it compiled in."""


@final
class IsolatedCompiler:
    """A `KernelCompiler` in a process of its own, which begins with the first module.

    Not to be shared between threads that run at once. After an end a new process begins.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._running: Child | None = None

    def object_code(self, text: str, *, whole: bool = False) -> bytes:
        """Return the object file of a module; see `KernelCompiler.object_code`.

        Raises CodeError where LLVM refuses it, CompilerEndedError where it ends the process.
        """
        if self._running is None:
            self._running = Child(_SERVER, astuple(self._target))
        try:
            is_object, data = self._running.ask(whole, text.encode())
        except ChildEndedError as error:
            self._running = None
            name = text.partition("define ")[2].partition("@")[2].partition("(")[0]
            raise ended(f"it compiled {name}", error) from None
        if not is_object:
            raise CodeError(data.decode())
        return data


def ended(what: str, error: ChildEndedError) -> CompilerEndedError:
    """Return the error for a process that ended while it did `what`, with the reason it gave."""
    reason = next((x for x in error.lines if x.startswith("LLVM ERROR")), error.lines[-1])
    return CompilerEndedError(
        f"LLVM ended while {what}: {reason[:200]}; this is a fault of lowtide, and the evaluator "
        "(lowtide.evaluate, `run --reference`) computes the module meanwhile"
    )


def answers_of(target: list[object]) -> tuple[Answer, None]:
    """Return what compiles for a processor, for as long as it is asked."""
    triple, cpu, features, vector_bytes, *_ = target
    assert isinstance(features, list) and isinstance(vector_bytes, int)
    compiler = KernelCompiler(Target(str(triple), str(cpu), tuple(features), vector_bytes))

    def answer(flag: int, text: bytes) -> tuple[int, bytes]:
        try:
            return 1, compiler.object_code(text.decode(), whole=bool(flag))
        except CodeError as error:
            return 0, str(error).encode()

    return answer, None
