"""Stored programs: as bytes, in a file, in the cache, read by another process, and damaged."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, final

import numpy as np
from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.family import HuntedCase, ModuleFamily, drawn_text
from tests.hunting.findings import Court, Judgement, Tell
from tests.hunting.judges import evaluated

from lowtide.client.executable.compiling import compile_module, deserialize_executable
from lowtide.client.executable.executable import Executable
from lowtide.evaluator import array_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import Array
from lowtide.options import Options, set_cache_folder
from lowtide.testing.check_pass import seeded_arguments

WAYS: Final = ("bytes", "file", "cache", "other process", "twice", "damaged", "cut")
_MOST_ALONE: Final = 4
"""One in so many cases that may start a process does."""

_CHILD: Final = """
import sys, lowtide
from pathlib import Path
from lowtide.evaluator import array_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments
path = Path(sys.argv[1])
arguments = seeded_arguments(parse_hlo(path.with_suffix(".hlo").read_text()), int(sys.argv[2]))
found = array_leaves(lowtide.deserialize(path)(*arguments))
path.with_suffix(".found").write_bytes(b"".join([x.tobytes() for x in found]))
"""


@final
class StoredPrograms(ModuleFamily):
    """Drawn modules, compiled and stored; what comes back has to compute the same bits."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The ways to store."""
        return {"way": tuple([("way", "stored", x) for x in WAYS])}

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a module and a way to store it."""
        text = drawn_text(seed, random, counts)
        way = random.choice(WAYS)
        if way == "other process" and random.randrange(_MOST_ALONE):
            way = "bytes"
        return HuntedCase(text, (seed, way), frozenset({("way", "stored", way)}))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where a stored program differs from the one that was stored."""
        return _StoredCourt(case, tell).run()


class _StoredCourt(Court):
    def __init__(self, case: HuntedCase, tell: Tell) -> None:
        super().__init__(tell)
        self.text = case.text
        self.seed, self.way = case.conditions

    def run(self) -> Judgement:
        module = parse_hlo(self.text)
        arguments = seeded_arguments(module, self.seed)
        if self.ask("evaluator", lambda: evaluated(module, arguments)) is None:
            return self.judgement()
        with tempfile.TemporaryDirectory() as folder:
            self._store(Path(folder), arguments)
        return self.judgement()

    def _store(self, folder: Path, arguments: Sequence[Array]) -> None:
        options = Options(cache=self.way == "cache", effort="fast")
        set_cache_folder(str(folder))
        built = self.ask("compile", lambda: compile_module(parse_hlo(self.text), options))
        if built is None:
            return
        expected = self.ask("call", lambda: array_leaves(built(*arguments)))
        stored = self.ask("serialize", built.serialize)
        if expected is None or stored is None:
            return
        if self.way in ("damaged", "cut"):
            self._damage(stored, arguments)
            return
        got = self.ask(self.way, lambda: self._again(folder, stored, options, arguments, expected))
        if got is not None and not _same(got, expected):
            self.found(self.way, "wrong", "what was stored computes other bits")

    def _again(
        self,
        folder: Path,
        stored: bytes,
        options: Options,
        arguments: Sequence[Array],
        expected: Sequence[Array],
    ) -> list[Array]:
        """What the program computes after it was stored."""
        if self.way == "cache":
            other = compile_module(parse_hlo(self.text), options)
            if not other.making.was_cached:
                self.found("cache", "missed", "an equal module is compiled anew")
            return array_leaves(other(*arguments))
        if self.way == "bytes":
            return array_leaves(deserialize_executable(stored)(*arguments))
        path = folder / "program"
        path.write_bytes(stored)
        if self.way == "other process":
            return self._in_another_process(path, expected)
        other = deserialize_executable(path)
        if self.way == "twice":
            again = other.serialize()
            if again != stored:
                self.found("twice", "wrong", "storing what was stored gives other bytes")
            other = deserialize_executable(again)
        return array_leaves(other(*arguments))

    def _in_another_process(self, path: Path, expected: Sequence[Array]) -> list[Array]:
        """What another process computes, as arrays like those expected."""
        path.with_suffix(".hlo").write_text(self.text)
        run = subprocess.run(
            [sys.executable, "-c", _CHILD, path, str(self.seed)], capture_output=True, text=True
        )
        if run.returncode:
            raise RuntimeError(f"another process ends with {run.returncode}: {run.stderr[-200:]}")
        found, start, results = path.with_suffix(".found").read_bytes(), 0, []
        for x in expected:
            part = found[start : start + x.nbytes]
            results.append(np.frombuffer(part, x.dtype).reshape(x.shape))
            start += x.nbytes
        return results

    def _damage(self, stored: bytes, arguments: Sequence[Array]) -> None:
        """Read bytes that are not what was stored: an error of ours has to say so."""
        random = Random(self.seed)
        place = random.randrange(len(stored))
        other = stored[:place]
        if self.way == "damaged":
            other += bytes([stored[place] ^ (1 << random.randrange(8))]) + stored[place + 1 :]
        self.ask(self.way, lambda: self._refused(lambda: deserialize_executable(other)))

    def _refused(self, read: Callable[[], Executable]) -> None:
        try:
            read()
        except LowtideError:
            return
        self.found(self.way, "wrong", "bytes that were changed are taken")


def _same(got: Sequence[Array], expected: Sequence[Array]) -> bool:
    pairs = zip(got, expected, strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)
