"""Packings as CSV, in the format of MiniMalloc: one interval per line, and where it lies.

The format is that of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning" (2023): `id,lower,upper,size,offset`, intervals without their upper end, or with
it where the column is `end`. There may be columns `alignment`, `gaps`, in which an interval takes
nothing, and `fixed`, an offset that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.checking.packing import PackingRow
from lowtide.ir import InputError

_COLUMNS: Final = ("id", "lower", "upper", "size", "offset")
_OTHER_COLUMNS: Final = ("alignment", "gaps", "fixed")
_SPELLINGS: Final = {
    **{name: name for name in (*_COLUMNS, *_OTHER_COLUMNS)},
    "buffer": "id",
    "buffer_id": "id",
    "begin": "lower",
    "start": "lower",
    "end": "upper",
}
_DIGITS: Final = 19
"""No memory and no program is larger than 2^63, a number of so many digits."""

_GAP: Final = re.compile(rf"([0-9]{{1,{_DIGITS}}})-([0-9]{{1,{_DIGITS}}})")


@dataclass(frozen=True, slots=True)
class CheckedPacking:
    """The intervals of a file and where they lie."""

    records: tuple[PackingRow, ...]
    offsets: tuple[int, ...]


def is_packing_csv(text: str) -> bool:
    """Whether a text begins like a packing: the first line names columns, one of them a time."""
    header = text.lstrip().split("\n", 1)[0]
    known = [_SPELLINGS.get(name.strip()) for name in header.split(",")]
    return "lower" in known or "upper" in known


def read_packing_csv(text: str, file: str = "") -> CheckedPacking:
    """Return the packing in a text; the columns may stand in any order, spaces are left out.

    Raises InputError with line and column (both from 1) of what is malformed: a missing or unknown
    column, a line of another length, a number that is none or below 0, an id that occurs twice, an
    interval that ends before it begins, a gap that is not in its interval.
    """
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise InputError("expected a header, found nothing", file=file, position="1:1")
    names = _header(lines[0], file)
    beyond = int("end" in [name.strip() for name in lines[0][1].split(",")])
    records: list[PackingRow] = []
    offsets: list[int] = []
    seen: dict[str, int] = {}
    for number, line in lines[1:]:
        cells = _Line(file, number, line, names)
        record = PackingRow(
            cells.text("id"),
            cells.number("lower"),
            cells.number("upper") + beyond,
            cells.number("size"),
            cells.number("alignment") if cells.has("alignment") else 1,
            tuple([(first, last + beyond) for first, last in cells.gaps()]),
            cells.number("fixed") if cells.has("fixed") else None,
        )
        if record.id in seen:
            raise cells.error("id", f"id {record.id} is that of line {seen[record.id]} too")
        if record.upper < record.lower:
            raise cells.error("upper", f"the interval ends before {record.lower}, where it begins")
        if record.alignment == 0:
            raise cells.error("alignment", "expected an alignment from 1")
        for first, last in record.gaps:
            if not record.lower <= first <= last <= record.upper:
                raise cells.error("gaps", f"{first} to {last} is not within the interval")
        seen[record.id] = number
        records.append(record)
        offsets.append(cells.number("offset"))
    return CheckedPacking(tuple(records), tuple(offsets))


def _header(first: tuple[int, str], file: str) -> list[str]:
    number, line = first
    names = []
    for column, cell in _cells(line):
        name = _SPELLINGS.get(cell.strip(), "")
        if not name or name in names:
            problem = "occurs twice" if name else "is not known"
            raise InputError(
                f"column {cell.strip()!r} {problem}; expected {', '.join(_COLUMNS)}, perhaps "
                f"{', '.join(_OTHER_COLUMNS)}",
                file=file,
                position=f"{number}:{column}",
            )
        names.append(name)
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}; expected {', '.join(_COLUMNS)}",
            file=file,
            position=f"{number}:{len(line) + 1}",
        )
    return names


def _cells(line: str) -> Iterator[tuple[int, str]]:
    """Yield (column of the first character, text) of the cells of a line."""
    column = 1
    for cell in line.split(","):
        yield column, cell
        column += len(cell) + 1


class _Line:
    def __init__(self, file: str, number: int, line: str, names: Sequence[str]) -> None:
        self._file = file
        self._number = number
        cells = list(_cells(line))
        if len(cells) != len(names):
            column = cells[len(names)][0] if len(cells) > len(names) else len(line) + 1
            raise InputError(
                f"{len(cells)} cells; expected {len(names)}",
                file=file,
                position=f"{number}:{column}",
            )
        self._cells = dict(zip(names, cells, strict=True))

    def has(self, name: str) -> bool:
        return name in self._cells and bool(self.text(name))

    def text(self, name: str) -> str:
        return self._cells[name][1].strip()

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last number of each gap, written `7-9 12-14`."""
        for gap in self.text("gaps").split() if self.has("gaps") else ():
            found = _GAP.fullmatch(gap)
            if found is None:
                raise self.error("gaps", f"expected gaps such as 7-9, found {gap!r}")
            yield int(found[1]), int(found[2])

    def number(self, name: str) -> int:
        text = self.text(name)
        if not (text.isascii() and text.isdigit()):
            raise self.error(name, f"expected a number from 0 as {name}, found {text!r}")
        if len(text) > _DIGITS:
            raise self.error(name, f"expected at most {_DIGITS} digits as {name}")
        return int(text)

    def error(self, name: str, message: str) -> InputError:
        column, cell = self._cells[name]
        column += len(cell) - len(cell.lstrip())
        return InputError(message, file=self._file, position=f"{self._number}:{column}")
