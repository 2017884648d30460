"""Packing problems as CSV, in the format of MiniMalloc: one buffer per line.

The format is that of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning" (2023). The columns `id`, `lower`, `upper` and `size` are needed; `alignment`,
`gaps` and `offset` may be there, in any order.

A buffer is live from `lower` to `upper`, which is not included. A file may say `end` instead of
`upper`: then that is included, and so are the ends of gaps. Gaps are stretches without the buffer,
`7-9 12-14`.

An `offset` is where the buffer has to lie; an empty cell leaves that open. Where there is a column
`fixed` too, `offset` is an answer that does not count.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain
from math import lcm
from operator import gt
from typing import Final

from lowtide.frontend.compressed import first_bytes
from lowtide.frontend.file_kinds import HEAD_BYTES
from lowtide.ir import InputError
from lowtide.records import dataclass
from lowtide.suggestions import nearest_name

OFFSET: Final = "offset"
_NEEDED: Final = ("id", "lower", "upper", "size")
_OPTIONAL: Final = ("alignment", "gaps", OFFSET, "fixed")
_SYNONYMS: Final = {
    "begin": "lower",
    "start": "lower",
    "end": "upper",
    "buffer": "id",
    "buffer_id": "id",
}
_TIMES: Final = frozenset({"lower", "upper", "start", "begin", "end"})
_LIMIT: Final = 1 << 62
"""Numbers, and the sizes of all buffers together, are below, so that sums fit 64 bits."""


@dataclass(frozen=True, eq=False, slots=True)
class PackingFile:
    """The buffers of a file, numbered in its order.

    Row `i` of `item`, `first`, `last` says that buffer `item[i]` is live at the steps from
    `first[i]` to `last[i]`, both included. `fixed` are the offsets that are given, by the number of
    the buffer. `header` and `lines` are the text, each line with as many cells as the header.
    """

    file: str
    header: tuple[str, ...]
    lines: tuple[str, ...]
    ids: tuple[str, ...]
    nbytes: array[int]
    alignment: array[int]
    item: array[int]
    first: array[int]
    last: array[int]
    fixed: dict[int, int]

    def with_offsets(self, offsets: Iterable[int]) -> Iterator[str]:
        """Yield the lines of the file with these as the last column, or in place of `offset`."""
        names = [name.strip() for name in self.header]
        place = names.index(OFFSET) if OFFSET in names else len(names)
        for line, value in zip(self.lines, chain([OFFSET], offsets), strict=True):
            cells = line.split(",")
            cells[place : place + 1] = [str(value)]
            yield ",".join(cells)


def looks_like_packing(head: bytes) -> bool:
    """Whether a file begins like a packing: its first line names columns with times and sizes.

    `head` are its first bytes, which may be compressed.
    """
    text = first_bytes(BytesIO(head), HEAD_BYTES).decode("utf-8-sig", "replace")
    names = {name.strip() for name in text.lstrip().partition("\n")[0].split(",")}
    return len(names) > 1 and "size" in names and not names.isdisjoint(_TIMES)


def read_packing_csv(data: bytes, file: str = "", alignment: int = 1) -> PackingFile:
    """Return the packing problem in the bytes of a file.

    Offsets are multiples of `alignment`, and of that in the file. Spaces around cells do not count,
    empty lines neither. Raises InputError with line and column, both from 1, of the first thing
    that is malformed or contradicts itself.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError("is not UTF-8 text", file=file, position=f"{line}:{column}") from None
    return _Reader(text, file, alignment).result()


class _Reader:
    def __init__(self, text: str, file: str, alignment: int) -> None:
        self.file = file
        self.least_alignment = alignment
        lines = [x.rstrip("\r") for x in text.split("\n")]
        self.numbers = [i for i, line in enumerate(lines, 1) if line and not line.isspace()]
        self.lines = [lines[i - 1] for i in self.numbers]
        if not self.lines:
            raise InputError("expected a header, found nothing", file=file, position="1:1")
        self.header = self.lines[0].split(",")
        self.column = self._columns()
        self.includes_end = "end" in [name.strip() for name in self.header]
        self.seen: dict[str, int] = {}
        self.nbytes = array("q")
        self.alignment = array("q")
        self.item = array("q")
        self.first = array("q")
        self.last = array("q")
        self.fixed: dict[int, int] = {}
        self.total = 0

    def result(self) -> PackingFile:
        if not self._read_plain():
            for number in range(1, len(self.lines)):
                self._read(number)
            self._check_fixed()
        return PackingFile(
            self.file,
            tuple(self.header),
            tuple(self.lines),
            tuple(self.seen),
            self.nbytes,
            self.alignment,
            self.item,
            self.first,
            self.last,
            self.fixed,
        )

    # -- the header ------------------------------------------------------------------------------

    def _columns(self) -> dict[str, int]:
        """The number of the cell by what it says."""
        found: dict[str, int] = {}
        for i, cell in enumerate(self.header):
            name = _SYNONYMS.get(cell.strip(), cell.strip())
            if name in found:
                raise self._error(0, i, f"column {cell.strip()!r} occurs twice")
            if name not in (*_NEEDED, *_OPTIONAL):
                raise self._error(0, i, f"column {cell.strip()!r} is not known; {_known(cell)}")
            found[name] = i
        for name in _NEEDED:
            if name not in found:
                raise self._error(0, len(self.header), f"no column {name!r}; {_known()}")
        return found

    # -- plain files -----------------------------------------------------------------------------

    def _read_plain(self) -> bool:
        """Read all lines at once, where they have the needed columns only; False for any doubt.

        What is wrong with a line is then found by reading it by itself.
        """
        if len(self.header) != len(_NEEDED):
            return False
        cells = ",".join(self.lines[1:]).split(",") if len(self.lines) > 1 else []
        if len(cells) != 4 * (len(self.lines) - 1) or not all(
            line.count(",") == 3 for line in self.lines
        ):
            return False
        ids, *columns = [cells[self.column[name] :: 4] for name in _NEEDED]
        if not all("".join(column).isdigit() and "".join(column).isascii() for column in columns):
            return False
        seen = dict(zip(map(str.strip, ids), range(1, len(self.lines)), strict=True))
        try:
            lower, upper, size = [array("q", map(int, column)) for column in columns]
        except (ValueError, OverflowError):
            return False
        last = array("q", [x - (not self.includes_end) for x in upper])
        total = sum(size) + len(size) * self.least_alignment
        if (
            len(seen) < len(ids)
            or total >= _LIMIT
            or max(upper, default=0) >= _LIMIT
            or any(map(gt, lower, last))
        ):
            return False
        self.seen, self.nbytes, self.first, self.last = seen, size, lower, last
        self.item = array("q", range(len(size)))
        self.alignment = array("q", [self.least_alignment]) * len(size)
        return True

    # -- a line ----------------------------------------------------------------------------------

    def _read(self, number: int) -> None:
        cells = self.lines[number].split(",")
        if len(cells) != len(self.header):
            column = min(len(cells), len(self.header))
            raise self._error(number, column, f"{len(cells)} cells; expected {len(self.header)}")
        name = cells[self.column["id"]].strip()
        if name in self.seen:
            other = self.numbers[self.seen[name]]
            raise self._fault(number, "id", f"id {name!r} is that of line {other} too")
        self.seen[name] = number
        lower = self._number(number, cells, "lower")
        upper = self._number(number, cells, "upper") + self.includes_end
        if lower >= upper:
            raise self._fault(number, "upper", self._no_lifetime(lower))
        self._read_size(number, cells)
        self._read_fixed(number, cells)
        buffer = number - 1
        gaps = cells[self.column["gaps"]].strip() if "gaps" in self.column else ""
        stretches = self._stretches(number, gaps, lower, upper) if gaps else [(lower, upper)]
        for start, stop in stretches:
            self.item.append(buffer)
            self.first.append(start)
            self.last.append(stop - 1)

    def _read_size(self, number: int, cells: Sequence[str]) -> None:
        size = self._number(number, cells, "size")
        alignment = self.least_alignment
        if "alignment" in self.column and cells[self.column["alignment"]].strip():
            own = self._number(number, cells, "alignment")
            if not own:
                raise self._fault(number, "alignment", "expected an alignment from 1")
            alignment = lcm(own, alignment)
        self.total += size + alignment
        if self.total >= _LIMIT:
            raise self._fault(number, "size", "all sizes up to here add up to 2^62 bytes or more")
        self.nbytes.append(size)
        self.alignment.append(alignment)

    def _read_fixed(self, number: int, cells: Sequence[str]) -> None:
        name = self._fixed_column()
        if name is None or not cells[self.column[name]].strip():
            return
        offset, alignment = self._number(number, cells, name), self.alignment[-1]
        if offset % alignment:
            raise self._fault(
                number, name, f"offset {offset} is no multiple of the alignment {alignment}"
            )
        self.fixed[number - 1] = offset

    def _fixed_column(self) -> str | None:
        return next((name for name in ("fixed", OFFSET) if name in self.column), None)

    def _no_lifetime(self, lower: int) -> str:
        if self.includes_end:
            return f"the buffer ends before {lower}, where it begins"
        return f"the buffer ends at or before {lower}, where it begins; the end is not included"

    # -- gaps ------------------------------------------------------------------------------------

    def _stretches(self, number: int, text: str, lower: int, upper: int) -> list[tuple[int, int]]:
        """The steps, without the end, at which a buffer with gaps is live; touching ones as one."""
        live: list[tuple[int, int]] = []
        begin = lower
        for first, stop in sorted([self._gap(number, gap) for gap in text.split()]):
            if not lower <= first < stop <= upper:
                raise self._fault(
                    number, "gaps", f"a gap from {first} to {stop} is not in {lower} to {upper}"
                )
            if begin < first:
                live.append((begin, first))
            begin = max(begin, stop)
        if begin < upper:
            live.append((begin, upper))
        if not live:
            raise self._fault(number, "gaps", "the gaps leave nothing of the buffer")
        return live

    def _gap(self, number: int, text: str) -> tuple[int, int]:
        span, at, _ = text.partition("@")
        if at:
            raise self._fault(
                number,
                "gaps",
                f"gap {text!r} keeps a part of the buffer, which is not supported; without "
                f"{text[len(span) :]!r} it keeps nothing",
            )
        first, _, last = span.partition("-")
        if not (_is_number(first) and _is_number(last)):
            raise self._fault(number, "gaps", f"expected gaps such as 7-9, found {text!r}")
        return int(first), int(last) + self.includes_end

    # -- what is fixed ---------------------------------------------------------------------------

    def _check_fixed(self) -> None:
        """Raise InputError where buffers have to lie over one another, or too high up."""
        if not self.fixed:
            return
        highest = max(self.fixed, key=lambda buffer: self.fixed[buffer] + self.nbytes[buffer])
        if self.fixed[highest] + self.nbytes[highest] + self.total >= _LIMIT:
            message = "with all other buffers above it, memory ends at 2^62 bytes or more"
            raise self._fault(highest + 1, self._fixed_column() or "", message)
        rows = [
            (first, last, self.fixed[buffer], self.fixed[buffer] + self.nbytes[buffer], buffer)
            for buffer, first, last in zip(self.item, self.first, self.last, strict=True)
            if buffer in self.fixed and self.nbytes[buffer]
        ]
        found = first_overlap(rows)
        if found is None:
            return
        one, other = sorted(found)
        ids = list(self.seen)
        raise self._fault(
            other + 1,
            self._fixed_column() or "",
            f"{ids[other]} has to lie over {ids[one]} of line {self.numbers[one + 1]}, which is "
            "live at the same time",
        )

    # -- cells and errors ------------------------------------------------------------------------

    def _number(self, number: int, cells: Sequence[str], name: str) -> int:
        text = cells[self.column[name]].strip()
        if not _is_number(text):
            raise self._fault(number, name, f"expected a number from 0 as {name}, found {text!r}")
        if len(text) > len(str(_LIMIT)) or int(text) >= _LIMIT:
            raise self._fault(number, name, f"expected a number below 2^62 as {name}")
        return int(text)

    def _fault(self, number: int, name: str, message: str) -> InputError:
        header = self.header[self.column[name]].strip()
        return self._error(number, self.column[name], f"column {header!r}: {message}")

    def _error(self, number: int, cell: int, message: str) -> InputError:
        line = self.lines[number]
        cells = line.split(",")
        column = len(line) + 1
        if cell < len(cells):
            blank = len(cells[cell]) - len(cells[cell].lstrip())
            column = sum([len(x) + 1 for x in cells[:cell]]) + blank + 1
        return InputError(message, file=self.file, position=f"{self.numbers[number]}:{column}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _known(name: str = "") -> str:
    """What a column may be called."""
    names = (*_NEEDED, *_OPTIONAL)
    close = nearest_name(name.strip(), (*names, *_SYNONYMS))
    hint = f"did you mean {close!r}? " if close else ""
    return f"{hint}expected {', '.join(_NEEDED)}, perhaps {', '.join(_OPTIONAL)}"


def first_overlap(rectangles: Sequence[tuple[int, int, int, int, int]]) -> tuple[int, int] | None:
    """Return the numbers of two rectangles that share a byte at a step; None if there are none.

    A rectangle is (first step, last step, offset, end, number): the last step is included, the end
    of the bytes is not, and none is empty. Time is n log n.
    """
    order = sorted(range(len(rectangles)), key=lambda i: rectangles[i][0])
    ends = sorted(range(len(rectangles)), key=lambda i: rectangles[i][1])
    live: list[tuple[int, int]] = []
    done = 0
    for i in order:
        first, _, offset, end, number = rectangles[i]
        while rectangles[ends[done]][1] < first:
            key = (rectangles[ends[done]][2], ends[done])
            del live[bisect_left(live, key)]
            done += 1
        place = bisect_left(live, (offset, -1))
        below = live[place - 1][1] if place else -1
        if below >= 0 and rectangles[below][3] > offset:
            return rectangles[below][4], number
        if place < len(live) and live[place][0] < end:
            return rectangles[live[place][1]][4], number
        insort(live, (offset, i))
    return None
