"""A gate for peaks: each program's peak against its limit and the one that was locked."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from lowtide import compiler
from lowtide.api import explain
from lowtide.autopsy.report import PlanReport
from lowtide.comparison.gate_file import GateEntry, read_gate
from lowtide.comparison.sides import side_of
from lowtide.files.writing import write_text
from lowtide.frontend.files import read
from lowtide.frontend.json_document import load_json
from lowtide.ir import InputError, LowtideError
from lowtide.records import dataclass
from lowtide.report.diff import MemoryDiff, diff_of
from lowtide.report.memory import MemoryReport
from lowtide.report.schema import Json, TextReport
from lowtide.search.deadline import CTRL_C, ended_by
from lowtide.verifier import verify

LOCK_SCHEMA: Final = "lowtide.peaks/1"


class GateVerdict(StrEnum):
    """What a gate says of a peak."""

    SAME = "same"
    FELL = "fell"
    WITHIN = "within tolerance"
    ROSE = "rose"
    OVER_LIMIT = "over the limit"
    UNLOCKED = "not locked"


_BAD: Final = frozenset({GateVerdict.ROSE, GateVerdict.OVER_LIMIT})


@dataclass(frozen=True, slots=True)
class PeakCheck:
    """A program at the gate: its peak, in bytes of one call in all, and what was locked before.

    `diff` is against the report that was locked, None where none was.
    """

    name: str
    peak_bytes: int
    locked_bytes: int | None
    limit_bytes: int | None
    verdict: GateVerdict
    diff: MemoryDiff | None

    @property
    def passes(self) -> bool:
        """Whether the gate lets it through."""
        return self.verdict not in _BAD

    def to_json(self) -> Json:
        """Return the entry of the schema's `checks`."""
        return {
            "name": self.name,
            "peak_bytes": self.peak_bytes,
            "locked_bytes": self.locked_bytes,
            "limit_bytes": self.limit_bytes,
            "verdict": self.verdict.value,
            "passes": self.passes,
            "diff": None if self.diff is None else self.diff.to_json(),
        }


@dataclass(frozen=True, slots=True)
class GateResult(TextReport):
    """The checks of all programs of a gate, in the order of its file.

    `lock` is its lock file; `was_updated` says that the peaks of this run were written there.
    """

    checks: tuple[PeakCheck, ...]
    lock: Path
    was_updated: bool = False

    @property
    def passes(self) -> bool:
        """Whether no peak is over its limit or above what is locked."""
        return all(x.passes for x in self.checks)

    def __str__(self) -> str:
        from lowtide.comparison.gate_text import gate_text
        from lowtide.report.drawing import visible

        return visible(gate_text(self))

    def to_json(self) -> Json:
        """Return the schema "lowtide.check/1"."""
        return {
            "schema": "lowtide.check/1",
            "passes": self.passes,
            "checks": [x.to_json() for x in self.checks],
        }


def check(file: str | os.PathLike[str], update: bool = False) -> GateResult:
    """Return whether the programs of a gate keep to their limits and to the peaks locked before.

    The gate is a TOML file, see `docs/explain.md`. The lock lies beside it, with the suffix
    `.lock.json`; with `update` the peaks of this run are written there, unless one is over its
    limit. Raises InputError for a malformed file, and what reading or planning a program raises.
    """
    path = Path(file)
    entries = read_gate(path)
    lock = path.with_suffix(".lock.json")
    locked = _read_lock(lock)
    reports = {entry.name: _report(entry, path) for entry in entries}
    checks = [_checked(entry, reports[entry.name], locked.get(entry.name)) for entry in entries]
    result = GateResult(tuple(checks), lock)
    if update and not any(x.verdict is GateVerdict.OVER_LIMIT for x in checks):
        document = {name: {**report, "seconds": {}} for name, report in reports.items()}
        text = json.dumps({"schema": LOCK_SCHEMA, "peaks": document}, indent=1)
        write_text(lock, f"{text}\n")
        return replace(result, was_updated=True)
    return result


def _read_lock(lock: Path) -> Mapping[str, Any]:
    if not lock.exists():
        return {}
    document = load_json(lock.read_bytes(), "a lock of peaks", str(lock))
    peaks = document.get("peaks") if isinstance(document, dict) else None
    if not isinstance(peaks, dict) or document.get("schema") != LOCK_SCHEMA:
        raise InputError(f"expected a lock of schema {LOCK_SCHEMA!r}", file=str(lock))
    return peaks


def _checked(entry: GateEntry, report: Json, locked: Any) -> PeakCheck:
    after = side_of(report, entry.name)
    peak, before = after.total_bytes, None
    if locked is not None:
        before = side_of(locked, f"the lock of {entry.name}")
    verdict = _verdict(entry, peak, None if before is None else before.total_bytes)
    return PeakCheck(
        entry.name,
        peak,
        None if before is None else before.total_bytes,
        entry.limit,
        verdict,
        None if before is None else diff_of(before, after),
    )


def _verdict(entry: GateEntry, peak: int, locked: int | None) -> GateVerdict:
    if entry.limit is not None and peak > entry.limit:
        return GateVerdict.OVER_LIMIT
    if locked is None:
        return GateVerdict.UNLOCKED
    if peak > entry.tolerance.most(locked):
        return GateVerdict.ROSE
    if peak > locked:
        return GateVerdict.WITHIN
    return GateVerdict.SAME if peak == locked else GateVerdict.FELL


# -- programs --------------------------------------------------------------------------------------


def _report(entry: GateEntry, path: Path) -> Json:
    if entry.module is not None:
        module = read(entry.module)
        verify(module)
        return compiler.explain(module, entry.options).to_json()
    found = _called(entry, path)
    if isinstance(found, MemoryReport | PlanReport):
        return found.to_json()
    arguments = found if isinstance(found, tuple) else (found,)
    return explained(*arguments).to_json()


def explained(source: Any, *specs: Any, **keywords: Any) -> MemoryReport | PlanReport:
    """Return what `lowtide.explain` does; Ctrl-C raises, since a part of a search is no verdict."""
    report: MemoryReport | PlanReport = explain(source, *specs, **keywords)
    if isinstance(report, MemoryReport) and ended_by(CTRL_C) in report.caveats:
        raise KeyboardInterrupt
    return report


def _called(entry: GateEntry, path: Path) -> Any:
    """What the function of an entry returns: arguments of `explain`, or a report."""
    where, _, name = entry.python.rpartition(":")
    module = _imported(where, entry, path)
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(
            f"{where} has no function {name!r}", file=str(path), position=f"peaks.{entry.name}"
        )
    return function()


def _imported(where: str, entry: GateEntry, path: Path) -> ModuleType:
    position = f"peaks.{entry.name}.python"
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise InputError(str(error), file=str(path), position=position) from None
    file = path.parent / where
    if not file.is_file():
        raise InputError(f"no such file: {file}", file=str(path), position=position)
    spec = importlib.util.spec_from_file_location(f"lowtide_gate_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise LowtideError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
