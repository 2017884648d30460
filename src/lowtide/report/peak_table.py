"""The table of what is taken at the peak: one row per group, the largest ones first."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from lowtide.ir import SourceLocation
from lowtide.records import dataclass
from lowtide.report.drawing import Paint, elide, elide_qualified, elide_start
from lowtide.report.grouping import groups_of
from lowtide.report.peak import Peak, PeakBuffer, PeakGroup
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


@dataclass(frozen=True, slots=True)
class TableForm:
    """The form of the table: its columns of text, its unit, its colours, and its groups.

    `by` is a name of `grouping.GROUPINGS`.
    """

    width: int
    unit: Unit
    paint: Paint
    by: str = "line"


def peak_table(peak: Peak, rows: int, form: TableForm, lines: int | None = None) -> list[str]:
    """Return the header, up to `rows` rows, and a line for what is left, as lines.

    Where a row with its shapes is too long for one line, all rows take two; with `lines`, there are
    as many rows then as go into so many lines. The storage of donated arguments, which the caller
    provides, is one row.
    """
    total = sum([buffer.nbytes for buffer in peak.buffers])
    groups = _groups(peak, form.by)
    sizes = [group.nbytes for group in groups]
    kept = _kept(groups, rows, total)
    columns = _Columns([_row(group) for group in groups[:kept]], sizes, form)
    if columns.is_stacked and lines is not None:
        kept = min(kept, max(1, lines // 2))
        columns = _Columns([_row(group) for group in groups[:kept]], sizes, form, stacked=True)
    text = [form.paint("dim", columns.header())]
    for cell in columns.cells:
        text += columns.lines(cell, total)
    rest = groups[kept:]
    if rest:
        nbytes = sum([group.nbytes for group in rest])
        count = sum([len(group.buffers) for group in rest])
        text.append(f"{columns.figures(nbytes, total)}  {count:,} smaller")
    return text


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
    return plain_function(source.function)


def plain_function(name: str) -> str:
    """Return the name of a function without the parts that tell nothing, e.g. `MlpBlock`."""
    parts = [part for part in name.split(".") if part != "<locals>"]
    while len(parts) > 1 and parts[-1] in ("__call__", "<lambda>"):
        parts.pop()
    return ".".join(parts)


# -- rows --------------------------------------------------------------------------------------


def _groups(peak: Peak, by: str) -> list[PeakGroup]:
    """The groups of the peak, with all donated arguments in one."""
    donated = tuple([x for x in peak.buffers if x.kind == "argument"])
    groups = list(groups_of([x for x in peak.buffers if x.kind != "argument"], by))
    if donated:
        nbytes = sum([x.nbytes for x in donated])
        groups.append(PeakGroup(None, nbytes, donated, "donated arguments"))
    return sorted(groups, key=lambda group: -group.nbytes)


def _kept(groups: list[PeakGroup], rows: int, total: int) -> int:
    """How many groups get a row: not those that are next to nothing, unless it is just one."""
    weighty = max(1, sum([group.nbytes * _TINY >= total for group in groups]))
    kept = min(rows, weighty)
    return kept if len(groups) > kept + 1 else len(groups)


def _row(group: PeakGroup) -> _Row:
    first, last = group.live
    live = f"{step_text(first)}..{step_text(last)}"
    shapes = _shapes(group.buffers)
    if group.source is None or (group.label and not group.is_line):
        return _Row(group.nbytes, shapes, group.label or group.buffers[0].name, "", live)
    function = group.label or _function(group.source)
    return _Row(group.nbytes, shapes, _file_and_line(group.source), function, live)


def _shapes(buffers: tuple[PeakBuffer, ...]) -> str:
    """Return `4 x f32[256,112]`, or for several shapes that with most bytes and a count."""
    sums: dict[str, int] = {}
    counts: dict[str, int] = {}
    for buffer in buffers:
        sums[buffer.shape] = sums.get(buffer.shape, 0) + buffer.nbytes
        counts[buffer.shape] = counts.get(buffer.shape, 0) + 1
    main = max(sums, key=lambda shape: sums[shape])
    text = f"{counts[main]:,} x {main}" if counts[main] > 1 else main
    others = len(buffers) - counts[main]
    return f"{text} + {others:,} more" if others else text


def _last(name: str) -> str:
    """The part of a function's name, or of scopes, that tells most."""
    return name.rpartition("/")[2] if "/" in name else name.rpartition(".")[2]


# -- columns -----------------------------------------------------------------------------------

_GAPS: Final = 13
"""The columns that stand between the cells, and those of the share."""


class _Columns:
    """The widths of the columns, and lines made with them."""

    def __init__(
        self, cells: list[_Row], sizes: list[int], form: TableForm, *, stacked: bool = False
    ) -> None:
        self.cells = cells
        self.form = form
        self.unit, self.paint = form.unit, form.paint
        numbers = [len(self.unit.number(nbytes)) for nbytes in (*sizes, sum(sizes))]
        self.number = max([7, *numbers])
        self.buffers = max([len("buffers"), *[len(cell.buffers) for cell in cells]])
        self.live = max([len("live"), *[len(cell.live) for cell in cells]])
        self.place = max([0, *[len(cell.place) for cell in cells if cell.function]])
        wanted = [self.place + 2 + len(cell.function) for cell in cells if cell.function]
        wanted += [len(cell.place) for cell in cells if not cell.function]
        made = max([len("made at"), *wanted])
        room = form.width - self.number - self.live - _GAPS
        least = max([len("made at"), self._least_made()])
        self.is_stacked = stacked or room - self.buffers < least
        self.made = min(made, room + 2 if self.is_stacked else room - self.buffers)
        last = max([0, *[len(_last(x.function)) for x in cells]])
        last = min(last, self.made * 2 // 5)
        self.place = min(self.place, max(12, self.made - 2 - last))

    def _least_made(self) -> int:
        """What the places need, with the last parts of the functions' names."""
        needed = [self.place + 2 + len(_last(x.function)) for x in self.cells if x.function]
        needed += [len(cell.place) for cell in self.cells if not cell.function]
        return max([0, *needed])

    def header(self) -> str:
        """The names of the columns."""
        figures = f"{self.unit.name:>{self.number}}  share"
        if self.is_stacked:
            return f"{figures}  {'made at':<{self.made}}  live"
        return f"{figures}  {'buffers':<{self.buffers}}  {'made at':<{self.made}}  live"

    def figures(self, nbytes: int, total: int) -> str:
        """The first two columns."""
        return f"{self.unit.number(nbytes):>{self.number}}  {percentage(nbytes, total):>5}"

    def lines(self, cell: _Row, total: int) -> list[str]:
        """One row, on a line or on two."""
        made = self._made(cell)
        colored = self.paint("place", made) + " " * (self.made - len(made))
        figures, live = self.figures(cell.nbytes, total), self.paint("dim", cell.live)
        if not self.is_stacked:
            return [f"{figures}  {cell.buffers:<{self.buffers}}  {colored}  {live}"]
        indent = " " * (self.number + 9)
        shapes = elide(cell.buffers, self.form.width - len(indent))
        return [f"{figures}  {colored}  {live}", indent + shapes]

    def _made(self, cell: _Row) -> str:
        if not cell.function:
            return elide_start(cell.place, self.made)
        place = elide(cell.place, self.place)
        room = self.made - self.place - 2
        cut = elide_start if "/" in cell.function else elide_qualified
        function = cut(cell.function, room)
        return f"{place:<{self.place}}  {function}"
