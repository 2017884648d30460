"""Processes of Python that answer requests of this one, each in its turn.

A request is a byte and data, so is an answer. Before the data stand its bytes as 8 bytes, least
first.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from tempfile import TemporaryFile
from typing import IO, Any, Final, TypeAlias, final
from weakref import finalize

_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lowtide.processes.child import serve; serve(*sys.argv[2:])"
)
_LENGTH_BYTES: Final = 8

Answer: TypeAlias = Callable[[int, bytes], "tuple[int, bytes]"]


def can_begin_children() -> bool:
    """Whether `sys.executable` is a Python; in a frozen application it is that application."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


class ChildEndedError(Exception):
    """The process ended before it answered: with what status, and the lines that it said."""

    def __init__(self, status: int, lines: list[str]) -> None:
        self.status = status
        self.lines = lines or [f"status {status}"]
        super().__init__(self.lines[-1])


@final
class Child:
    """A process whose answers come from what a function, "module:name", makes of `given`.

    That is a function from requests to answers, and how many seconds the process waits for a
    request before it ends, None for ever.

    It takes no part in what a terminal sends to this one. Not to be shared between threads that ask
    at once.
    """

    def __init__(self, function: str, given: Any = None) -> None:
        self._said = TemporaryFile()  # noqa: SIM115, it lives as long as the process.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CODE, json.dumps(sys.path), function, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        self._end = finalize(self, _end, self.process, self._said, os.getpid())

    def ask(self, flag: int, data: bytes) -> tuple[int, bytes]:
        """Return the answer to a request; raises ChildEndedError where none comes.

        Where this is interrupted the process ends.
        """
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        try:
            _write(process.stdin, flag, data)
            return _read(process.stdout)
        except (BrokenPipeError, EOFError):
            status = process.wait()
            self._said.seek(0)
            raise ChildEndedError(
                status, self._said.read().decode(errors="replace").splitlines()
            ) from None
        except BaseException:
            self.end()  # Its answer would be taken for that of the next request.
            raise

    def end(self) -> None:
        """End the process, whatever it does."""
        self._end()


def _end(process: subprocess.Popen[bytes], said: IO[bytes], owner: int) -> None:
    """End a process; one that was forked from its owner leaves it alone."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, said):
        with suppress(BrokenPipeError):
            assert stream is not None
            stream.close()


def serve(function: str, given: str) -> None:
    """Answer the requests of standard input until it ends, or none came for long enough.

    What is printed meanwhile is no answer.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    home, _, name = function.partition(":")
    answer: Answer
    answer, patience = getattr(import_module(home), name)(json.loads(given))
    source = sys.stdin.buffer
    while patience is None or select.select([source], [], [], patience)[0]:
        try:
            flag, data = _read(source)
            _write(answers, *answer(flag, data))
        except (BrokenPipeError, EOFError):
            return


def _write(stream: IO[bytes], flag: int, data: bytes) -> None:
    stream.write(bytes([flag]) + len(data).to_bytes(_LENGTH_BYTES, "little"))
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
