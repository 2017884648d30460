"""The file of a gate: which programs it watches, and how much memory each may take."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lowtide.compiler import PlanOptions
from lowtide.ir import InputError
from lowtide.ir.sizes import bytes_of
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.suggestions import nearest

_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%$")
_KEYS: Final = ("module", "python", "limit", "tolerance", "stage", "effort")
_NAME: Final = re.compile(r"[\w.-]+$")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a peak may rise above the locked one: a share of it, or bytes."""

    share: float = 0.0
    nbytes: int = 0

    def most(self, locked: int) -> int:
        """Return the most bytes that pass where so many are locked."""
        return locked + max(self.nbytes, int(locked * self.share))


@dataclass(frozen=True, slots=True)
class GateEntry:
    """A program that a gate watches: a MODULE file, or a function in Python that returns one.

    `limit` is the most bytes of one call in all, None for no limit but the locked peak.
    """

    name: str
    module: Path | None
    python: str
    limit: int | None
    tolerance: Tolerance
    options: PlanOptions


def read_gate(path: Path) -> tuple[GateEntry, ...]:
    """Return the entries of a TOML file, in order; paths in it begin at its folder.

    Each table `[peaks.NAME]` has a `module` or a `python = "file.py:function"`, and may have a
    `limit`, a `tolerance` such as "1%" or "4MiB", a `stage` and an `effort`; a `tolerance` outside
    of them is that of all. Raises InputError with the key for what is malformed.
    """
    try:
        with path.open("rb") as stream:
            document = tomllib.load(stream)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not TOML: {error}", file=str(path)) from None
    _check_keys(document, ("peaks", "tolerance"), "", path)
    tables = document.get("peaks")
    if not isinstance(tables, dict) or not tables:
        raise InputError("expected a table [peaks.NAME] for each program", file=str(path))
    usual = document.get("tolerance", "0%")
    return tuple([_entry(name, table, usual, path) for name, table in tables.items()])


def _entry(name: str, table: Any, usual: Any, path: Path) -> GateEntry:
    where = f"peaks.{name}"
    if not _NAME.match(name):
        raise _error("a name has letters, digits, '.', '_' and '-' only", where, path)
    if not isinstance(table, dict):
        raise _error("expected a table", where, path)
    _check_keys(table, _KEYS, f"{where}.", path)
    for key in _KEYS[:2] + _KEYS[4:]:
        if not isinstance(table.get(key, ""), str):
            raise _error("expected a string", f"{where}.{key}", path)
    module, python = table.get("module", ""), table.get("python", "")
    if bool(module) == bool(python):
        raise _error("expected either `module` or `python`", where, path)
    if python and ":" not in python:
        raise _error("expected 'file.py:function' or 'package:function'", f"{where}.python", path)
    limit = table.get("limit")
    return GateEntry(
        name,
        path.parent / module if module else None,
        python,
        None if limit is None else _size(limit, f"{where}.limit", path),
        _tolerance(table.get("tolerance", usual), f"{where}.tolerance", path),
        _options(table, where, path),
    )


def _options(table: Mapping[str, Any], where: str, path: Path) -> PlanOptions:
    given = {key: table[key] for key in ("stage", "effort") if key in table}
    try:
        return PlanOptions.of(Options(**given))
    except ValueError as error:
        raise _error(str(error), where, path) from None


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str, path: Path) -> None:
    for key in table:
        if key not in known:
            raise _error(f"no such key{nearest(key, known)}", f"{where}{key}", path)


def _size(value: Any, where: str, path: Path) -> int:
    try:
        return bytes_of(value)
    except (ValueError, TypeError) as error:
        raise _error(str(error), where, path) from None


def _tolerance(value: Any, where: str, path: Path) -> Tolerance:
    share = _SHARE.match(value) if isinstance(value, str) else None
    if share is not None:
        return Tolerance(share=float(share[1]) / 100)
    return Tolerance(nbytes=_size(value, where, path))


def _error(message: str, where: str, path: Path) -> InputError:
    return InputError(message, file=str(path), position=where)
