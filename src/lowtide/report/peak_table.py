"""The table of what is taken at the peak: one row per source line, the largest ones first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from lowtide.ir import SourceLocation
from lowtide.report.drawing import Paint, elide, elide_qualified, elide_start
from lowtide.report.memory import Peak, PeakBuffer, PeakGroup
from lowtide.report.units import Unit, percentage

_TINY: Final = 200
"""A group of less than one part in so many is not worth a row."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of one row."""

    nbytes: int
    buffers: str
    place: str
    function: str
    live: str


def peak_table(peak: Peak, rows: int, width: int, unit: Unit, paint: Paint) -> list[str]:
    """Return the header, up to `rows` rows, and a line for what is left, as lines.

    The storage of donated arguments, which the caller provides, is one row.
    """
    total = sum([buffer.nbytes for buffer in peak.buffers])
    groups = _groups(peak)
    kept = _kept(groups, rows, total)
    cells = [_row(group, width // 3) for group in groups[:kept]]
    rest = groups[kept:]
    columns = _Columns(cells, [group.nbytes for group in groups], width, unit)
    lines = [paint("dim", columns.header())]
    lines += [columns.line(cell, total, paint) for cell in cells]
    if rest:
        nbytes = sum([group.nbytes for group in rest])
        count = sum([len(group.buffers) for group in rest])
        smaller = f"{columns.figures(nbytes, total)}  {count:,} smaller"
        lines.append(smaller)
    return lines


def step_text(position: int) -> str:
    """Return a position as the number of a step, from 1."""
    return f"{position + 1:,}"


def place_text(source: SourceLocation, *, function: bool = True) -> str:
    """Return `models.py:88 in conv_bn`."""
    place = _file_and_line(source)
    name = _function(source)
    return f"{place} in {name}" if function and name else place


def _file_and_line(source: SourceLocation) -> str:
    return f"{PurePosixPath(source.file).name}:{source.line}"


def _function(source: SourceLocation) -> str:
    """The name of a function without the parts that tell nothing, e.g. `MlpBlock.__call__`."""
    parts = [part for part in source.function.split(".") if part != "<locals>"]
    while len(parts) > 1 and parts[-1] in ("__call__", "<lambda>"):
        parts.pop()
    return ".".join(parts)


# -- rows --------------------------------------------------------------------------------------


def _groups(peak: Peak) -> list[PeakGroup]:
    """The groups of the peak, with all donated arguments in one."""
    donated = tuple([x for x in peak.buffers if x.kind == "argument"])
    if not donated:
        return list(peak.groups())
    others = tuple([x for x in peak.buffers if x.kind != "argument"])
    groups = list(Peak(peak.position, peak.instruction, peak.source, others).groups())
    groups.append(PeakGroup(None, sum([x.nbytes for x in donated]), donated))
    return sorted(groups, key=lambda group: -group.nbytes)


def _kept(groups: list[PeakGroup], rows: int, total: int) -> int:
    """How many groups get a row: not those that are next to nothing, unless it is just one."""
    weighty = max(1, sum([group.nbytes * _TINY >= total for group in groups]))
    kept = min(rows, weighty)
    return kept if len(groups) > kept + 1 else len(groups)


def _row(group: PeakGroup, width: int) -> _Row:
    first, last = group.live
    live = f"{step_text(first)}..{step_text(last)}"
    buffers = group.buffers
    shapes = _shapes(buffers, width)
    if buffers[0].kind == "argument":
        return _Row(group.nbytes, shapes, "donated arguments", "", live)
    if group.source is None:
        return _Row(group.nbytes, shapes, buffers[0].name, "", live)
    place, function = _file_and_line(group.source), _function(group.source)
    return _Row(group.nbytes, shapes, place, function, live)


def _shapes(buffers: tuple[PeakBuffer, ...], width: int) -> str:
    """Return `4 x f32[256,112]`, or for several shapes that with most bytes and a count."""
    sums: dict[str, int] = {}
    counts: dict[str, int] = {}
    for buffer in buffers:
        sums[buffer.shape] = sums.get(buffer.shape, 0) + buffer.nbytes
        counts[buffer.shape] = counts.get(buffer.shape, 0) + 1
    main = max(sums, key=lambda shape: sums[shape])
    text = f"{counts[main]:,} x {main}" if counts[main] > 1 else main
    others = len(buffers) - counts[main]
    if not others:
        return elide(text, width)
    more = f" + {others:,} more"
    return elide(text, width - len(more)) + more


# -- columns -----------------------------------------------------------------------------------


class _Columns:
    """The widths of the columns, and lines made with them."""

    def __init__(self, cells: list[_Row], sizes: list[int], width: int, unit: Unit) -> None:
        self.unit = unit
        numbers = [len(unit.number(nbytes)) for nbytes in (*sizes, sum(sizes))]
        self.number = max([7, *numbers])
        self.buffers = max([len("buffers"), *[len(cell.buffers) for cell in cells]])
        self.live = max([len("live"), *[len(cell.live) for cell in cells]])
        room = width - self.number - self.buffers - self.live - 13
        places = [len(cell.place) for cell in cells if cell.function]
        self.place = min(max([0, *places]), max(12, room * 3 // 5))
        used = [self.place + 2 + len(cell.function) for cell in cells if cell.function]
        used += [len(cell.place) for cell in cells if not cell.function]
        self.made = min(room, max([len("made at"), *used]))

    def header(self) -> str:
        """The names of the columns."""
        return (
            f"{self.unit.name:>{self.number}}  share  {'buffers':<{self.buffers}}  "
            f"{'made at':<{self.made}}  live"
        )

    def figures(self, nbytes: int, total: int) -> str:
        """The first two columns."""
        return f"{self.unit.number(nbytes):>{self.number}}  {percentage(nbytes, total):>5}"

    def line(self, cell: _Row, total: int, paint: Paint) -> str:
        """One row."""
        made = self._made(cell)
        colored = paint("place", made) + " " * (self.made - len(made))
        return (
            f"{self.figures(cell.nbytes, total)}  {cell.buffers:<{self.buffers}}  {colored}  "
            f"{paint('dim', cell.live)}"
        )

    def _made(self, cell: _Row) -> str:
        if not cell.function:
            return elide_start(cell.place, self.made)
        place = elide(cell.place, self.place)
        function = elide_qualified(cell.function, self.made - self.place - 2)
        return f"{place:<{self.place}}  {function}"
