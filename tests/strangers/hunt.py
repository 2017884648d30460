"""The hunt in one reader: inputs that reach new lines are kept, and the law is held over all."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from tests.strangers.mutations import mutated
from tests.strangers.readers import READERS

import lowtide
from lowtide.ir import LowtideError

LIMIT_SECONDS: Final = 10
"""Of the processor, for one input."""
LIMIT_BYTES: Final = 256 * 2**20
BYTES_PER_BYTE: Final = 2000
"""Of memory: so much at once, and so much for each byte of an input."""
ASKED: Final = "asked.bin"
"""The file of a hunt's folder that has the last input."""

WELL_KNOWN: Final = 50
"""A function is followed line by line in so many calls, then in one of so many."""

ALL_FOLLOWED: Final = 200
ONE_FOLLOWED: Final = 4
"""So many inputs are followed, then one of so many: to follow takes most of the time."""

_ROOT: Final = str(Path(lowtide.__file__).parent) + os.sep
_SYSTEM: Final = tuple({*sys.path, sys.prefix, sys.base_prefix, _ROOT, "/proc/", "/sys/", "/usr/"})


class TooSlowError(BaseException):
    """An input took more than its time."""


class Hunt:
    """One reader, the inputs that reached something new, and what broke the law."""

    def __init__(self, name: str, state: Path, rng: random.Random) -> None:
        self.name, self.state, self.rng = name, state, rng
        self.reader = READERS[name]
        self.corpus = [*self.reader.seeds()]
        self.lines: set[tuple[str, int]] = set()
        self.counts = {"inputs": 0, "read": 0, "refused": 0}
        self.finds: dict[str, bytes] = {}
        self.opened: list[str] = []
        self.seen: dict[CodeType, int] = {}

    def row(self) -> str:
        """Return the row of the table."""
        cells = [self.name, *self.counts.values(), len(self.lines), len(self.finds)]
        return "| " + " | ".join([f"{x:,}" if isinstance(x, int) else x for x in cells]) + " |"

    def run(self, seconds: float, inputs: int = 10**9) -> None:
        """Ask the reader for so many seconds of the processor, or so many inputs."""
        until = time.process_time() + seconds
        with tempfile.TemporaryDirectory() as folder, watched(self.opened):
            for data in list(self.corpus):
                self.ask(data, Path(folder))
            while time.process_time() < until and self.counts["inputs"] < inputs:
                data = mutated(self.rng, self.rng.choice(self.corpus), self.corpus)
                if self.ask(data, Path(folder)):
                    self.corpus.append(data)

    def ask(self, data: bytes, folder: Path) -> bool:
        """Ask the reader once; return whether new lines were reached."""
        self.counts["inputs"] += 1
        self._note(data)
        self.opened.clear()
        before, reached = len(self.lines), self.lines
        _forget_peak()
        start = _resident("VmRSS")
        find = self._asked(data, folder, reached)
        used = _resident("VmHWM") - start
        if not find and used > LIMIT_BYTES + BYTES_PER_BYTE * len(data):
            find = f"memory: {used // 2**20} MiB for {len(data)} bytes"
        outside = [x for x in self.opened if not _is_inside(x, folder)]
        if not find and outside:
            find = f"opened: {outside[0]}"
        if find:
            self._keep(find, data)
        return len(self.lines) > before

    def _asked(self, data: bytes, folder: Path, reached: set[tuple[str, int]]) -> str:
        signal.signal(signal.SIGPROF, _too_slow)
        try:
            signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS)
            if self._is_followed():
                sys.settrace(_tracer(reached, self.seen))
            try:
                self.reader.read(data, folder)
            finally:
                sys.settrace(None)
                signal.setitimer(signal.ITIMER_PROF, 0)
            self.counts["read"] += 1
        except LowtideError:
            self.counts["refused"] += 1
        except TooSlowError as error:
            return f"slow: {_place(error)}"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return f"{type(error).__name__}: {_place(error)}"
        return ""

    def _is_followed(self) -> bool:
        count = self.counts["inputs"]
        return count <= ALL_FOLLOWED or count % ONE_FOLLOWED == 0

    def _note(self, data: bytes) -> None:
        """Write down what is asked: where the process dies, it is what killed it."""
        self.state.mkdir(parents=True, exist_ok=True)
        (self.state / ASKED).write_bytes(data)

    def _keep(self, find: str, data: bytes) -> None:
        key = find.partition(" for ")[0] if find.startswith("memory") else find
        if key in self.finds:
            return
        self.finds[key] = data
        (self.state / f"{len(self.finds)}.bin").write_bytes(data)
        (self.state / f"{len(self.finds)}.txt").write_text(find + "\n")
        print(f"{self.name}: {find}", file=sys.stderr, flush=True)


def _tracer(reached: set[tuple[str, int]], seen: dict[CodeType, int]) -> Any:
    """Return what notes the lines of our code; functions known well are looked at now and then."""

    def lines(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return lines

    def calls(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(_ROOT):
            return None
        count = seen[code] = seen.get(code, 0) + 1
        return lines if count < WELL_KNOWN or count % WELL_KNOWN == 0 else None

    return calls


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlowError


def _place(error: BaseException) -> str:
    """Return where an exception was raised: the deepest line of ours, and its message."""
    frames = [x for x in traceback.extract_tb(error.__traceback__) if x.filename.startswith(_ROOT)]
    words = (str(error).splitlines() or [""])[0][:120]
    if not frames:
        return words
    last = frames[-1]
    return f"{last.filename.removeprefix(_ROOT)}:{last.lineno} {words}"


def _is_inside(path: str, folder: Path) -> bool:
    real = os.path.realpath(path)
    return real.startswith((str(folder.resolve()), *_SYSTEM))


_hooked: list[list[str]] = []


@contextmanager
def watched(opened: list[str]) -> Iterator[None]:
    """Have the names of opened files put into the list. A hook stays for good, and is one."""
    if not _hooked:
        sys.addaudithook(_hook)
    _hooked.append(opened)
    try:
        yield
    finally:
        _hooked[-1] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _hooked and isinstance(arguments[0], str | bytes):
        _hooked[-1].append(os.fsdecode(arguments[0]))


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0
