"""Compiling in a process of its own, which LLVM may end without ending this one.

A request is a byte that says whether the module is optimized as a whole, and its text. An answer is
a byte that says whether there is an object, and the object or LLVM's refusal. Before each text
stand its bytes as 8 bytes, least first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import astuple
from tempfile import TemporaryFile
from typing import IO, Final, final
from weakref import finalize

from lowtide.ir.errors import LowtideError
from lowtide.llvm.machine import CodeError, KernelCompiler
from lowtide.llvm.target import Target

_CHILD: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lowtide.llvm.isolated import serve; serve(json.loads(sys.argv[2]))"
)
_LENGTH_BYTES: Final = 8


class CompilerEndedError(LowtideError):
    """LLVM ended the process that it compiled in."""


@final
class IsolatedCompiler:
    """A `KernelCompiler` in a process of its own, which begins with the first module.

    Not to be shared between threads that run at once. After an end a new process begins.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._running: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def object_code(self, text: str, *, whole: bool = False) -> bytes:
        """Return the object file of a module; see `KernelCompiler.object_code`.

        Raises CodeError where LLVM refuses it, CompilerEndedError where it ends the process.
        """
        process = self._running or self._begun()
        assert process.stdin is not None and process.stdout is not None
        try:
            _write(process.stdin, bytes([whole]), text.encode())
            found = _read(process.stdout)
        except (BrokenPipeError, EOFError):
            raise self._ended(text) from None
        if not found[0]:
            raise CodeError(found[1].decode())
        return found[1]

    def _begun(self) -> subprocess.Popen[bytes]:
        path, target = json.dumps(sys.path), json.dumps(astuple(self._target))
        self._said = TemporaryFile()  # noqa: SIM115, it lives as long as the process.
        self._running = subprocess.Popen(
            [sys.executable, "-c", _CHILD, path, target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        finalize(self, _close, self._running, self._said)
        return self._running

    def _ended(self, text: str) -> CompilerEndedError:
        """The error for a process that is gone, with the reason that LLVM gave."""
        assert self._running is not None and self._said is not None
        status = self._running.wait()
        self._running = None
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines() or [f"status {status}"]
        reason = next((x for x in lines if x.startswith("LLVM ERROR")), lines[-1])
        name = text.partition("define ")[2].partition("@")[2].partition("(")[0]
        return CompilerEndedError(
            f"LLVM ended while it compiled {name}: {reason[:200]}; this is a fault of lowtide, and "
            "the evaluator (lowtide.evaluate, `run --reference`) computes the module meanwhile"
        )


def _close(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    """End a process: it reads until its input ends."""
    with suppress(BrokenPipeError):
        process.communicate()
    said.close()


def serve(target: list[object]) -> None:
    """Compile what standard input asks for, until it ends."""
    triple, cpu, features, vector_bytes = target
    assert isinstance(features, list) and isinstance(vector_bytes, int)
    compiler = KernelCompiler(Target(str(triple), str(cpu), tuple(features), vector_bytes))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What LLVM prints is no answer.
    while True:
        try:
            flag, text = _read(sys.stdin.buffer)
        except EOFError:
            return
        try:
            code = compiler.object_code(text.decode(), whole=bool(flag))
            _write(answers, b"\1", code)
        except CodeError as error:
            _write(answers, b"\0", str(error).encode())


def _write(stream: IO[bytes], flag: bytes, data: bytes) -> None:
    stream.write(flag + len(data).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> tuple[int, bytes]:
    head = stream.read(1 + _LENGTH_BYTES)
    if len(head) <= _LENGTH_BYTES:
        raise EOFError
    size = int.from_bytes(head[1:], "little")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return head[0], data
