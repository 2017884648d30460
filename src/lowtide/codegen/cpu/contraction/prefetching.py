"""Asking for memory ahead of reading it, where processors do not see what comes next.

They follow runs, some at a time, up to the end of a page; not what lies far apart, nor many runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.views import View
from lowtide.codegen.cpu.fetching import fetching_for
from lowtide.codegen.elements.elements import Elements
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

LINE: Final = 64
"""Bytes that come at once."""

STEPS_AHEAD: Final = 8
"""Steps of k between what is packed of rows that lie side by side and what is asked for."""

ROWS_AHEAD: Final = 8
"""Rows between what is packed of rows that lie along k and what is asked for."""


def ask_to_write(fn: Function, place: str, nbytes: int) -> None:
    """Write what asks for the lines that some bytes will be stored to, wherever lines begin."""
    for at in (*range(0, nbytes, LINE), nbytes - 1):
        fn.prefetch(fn.gep(place, at), 1, write=True)


@dataclass(frozen=True, slots=True)
class _Lying:
    """How runs of what is read lie: `along` bytes apart, each of elements of `size` bytes."""

    view: View
    along: int
    size: int


def _lying(side: OperandSide, *, is_along_k: bool = False) -> _Lying | None:
    """How an operand lies whose runs are the steps of k, or with `is_along_k` its columns.

    None where it is not read as it lies in memory.
    """
    return None if side.view is None else _runs(side, side.view, is_along_k)


def _all_lying(side: OperandSide, *, is_along_k: bool = False) -> list[_Lying]:
    """How each array lies that an operand is read or computed from, element by element."""
    found = [_runs(side, x, is_along_k) for x in side.sources()]
    return [x for x in found if x is not None]


def _runs(side: OperandSide, view: View, is_along_k: bool) -> _Lying | None:
    steps = [view.single(x) for x in (side.roles.inner, side.roles.free)]
    within, between = steps if is_along_k else steps[::-1]
    if within != 1 or not between:
        return None
    size = view.source.shape.element_type.nbytes
    return _Lying(view, between * size, size)


# -- panels ----------------------------------------------------------------------------------------


def ahead_of(
    elements: Elements,
    side: OperandSide,
    column: Integer,
    first: Integer,
    columns: int,
    count: Integer | None = None,
) -> Callable[[Integer], None]:
    """Return what asks for the columns from `column` on of later steps, called with each step.

    Steps count the elements of k from `first` on. Where there are `count` of them, the last ones
    ask for the first ones of the columns behind. What the operand is computed from is asked for
    alike. Nothing is where that does not lie along the columns.
    """
    fn, fetching = elements.function, fetching_for(elements.target)
    bases: list[tuple[_Lying, str, Integer, Integer]] = []
    for lying in _all_lying(side):
        width = columns * lying.size
        steps = max(1, fetching.panels // width)
        place = fn.mul(fn.add(first, steps), lying.along)
        start = side.address(fn, "%batch", lying.view)
        base = fn.gep(start, fn.add(place, fn.mul(column, lying.size)))
        edge: Integer = 0
        back: Integer = 0
        if count is not None:
            edge, back = fn.sub(count, steps), fn.sub(width, fn.mul(count, lying.along))
        bases.append((lying, base, edge, back))

    def ask(step: Integer) -> None:
        for lying, base, edge, back in bases:
            there = fn.gep(base, fn.mul(step, lying.along))
            if count is not None:
                is_last = fn.compare("sge", step, edge)
                there = fn.gep(there, fn.select(is_last, "i64", back, 0))
            width = columns * lying.size
            # A run may reach into a further line: that matters where much is computed of it.
            last = () if side.view is not None else (width - 1,)
            for at in (*range(0, width, LINE), *last):
                fn.prefetch(fn.gep(there, at), fetching.cache)

    return ask


@dataclass(frozen=True, slots=True)
class PanelAhead:
    """The panel behind the one that is multiplied: its tiles of rows ask for it in turns.

    A step along k of a panel has `lines` lines, of which a tile asks for `each`; `along` bytes are
    between steps, and an element has `size`.
    """

    lines: int
    each: int
    along: int
    size: int

    def ask(self, fn: Function, step: Integer, count: int) -> None:
        """Write what asks for `count` steps from a step on, in the function of a tile."""
        for number in range(count):
            there = fn.gep("%ahead", fn.mul(fn.add(step, number), "%apart"))
            for line in range(self.each):
                fn.prefetch(fn.gep(there, line * LINE), 2)


def panel_ahead(side: OperandSide, columns: int, tiles: int) -> PanelAhead | None:
    """Return how `tiles` tiles of rows ask for panels of so many columns.

    None where the operand is not read as it lies, or does not lie along its columns.
    """
    lying = _lying(side)
    if lying is None:
        return None
    lines = -(-columns * lying.size // LINE)
    return PanelAhead(lines, -(-lines // tiles), lying.along, lying.size)


def tiles_ahead(
    elements: Elements, side: OperandSide, first: Integer
) -> Callable[[Integer, Integer, int], None]:
    """Return what asks for some rows of a later step, where rows lie side by side.

    It is called with a step, counted from the element `first` of k on, the first row, and how many
    there are.
    """
    fn, fetching = elements.function, fetching_for(elements.target)
    bases: list[tuple[_Lying, str]] = []
    for lying in _all_lying(side):
        place = fn.mul(fn.add(first, STEPS_AHEAD), lying.along)
        bases.append((lying, fn.gep(side.address(fn, "%batch", lying.view), place)))

    def ask(step: Integer, row: Integer, count: int) -> None:
        for lying, base in bases:
            there = fn.gep(base, fn.add(fn.mul(step, lying.along), fn.mul(row, lying.size)))
            for line in range(0, count * lying.size, LINE):
                fn.prefetch(fn.gep(there, line), fetching.cache)

    return ask


def lines_ahead(elements: Elements, side: OperandSide) -> Callable[[Integer, Integer], None]:
    """Return what asks for what comes some lines later in a column that lies along k.

    It is called with the number of the column, and with an element of k that is about to be read.
    What the operand is computed from is asked for alike, if it lies so.
    """
    distance = fetching_for(elements.target).lines * LINE
    return _ahead_along_k(elements, side, lambda lying: distance)


def rows_ahead(elements: Elements, side: OperandSide) -> Callable[[Integer, Integer], None]:
    """Return what asks for the same part of a later row, where rows lie along k.

    It is called as that of `lines_ahead`, with the number of the row.
    """
    return _ahead_along_k(elements, side, lambda lying: ROWS_AHEAD * lying.along)


def _ahead_along_k(
    elements: Elements, side: OperandSide, distance: Callable[[_Lying], int]
) -> Callable[[Integer, Integer], None]:
    """What asks for what lies so many bytes behind an element of a run along k."""
    fn, fetching = elements.function, fetching_for(elements.target)
    bases = [
        (x, fn.gep(side.address(fn, "%batch", x.view), distance(x)))
        for x in _all_lying(side, is_along_k=True)
    ]

    def ask(number: Integer, k: Integer) -> None:
        for lying, base in bases:
            there = fn.gep(base, fn.add(fn.mul(number, lying.along), fn.mul(k, lying.size)))
            fn.prefetch(there, fetching.cache)

    return ask


# -- strips ----------------------------------------------------------------------------------------

Part = tuple[int, int, Callable[[Integer], None]]
"""The first column, the end, and what is called with each number of a column."""


@dataclass(frozen=True, slots=True)
class StripAhead:
    """Asks for steps of k that are read side by side, a line of each of them in turn.

    `base` is the address of the first column of step 0, `along` bytes lie between steps. What is
    asked for is read `early` bytes later.
    """

    fn: Function
    base: str
    along: int
    size: int
    early: int
    run: int

    def parts(self, step: Integer, count: int, columns: int) -> list[Part]:
        """Return the columns that ask for later ones of `count` steps from `step` on, and the rest.

        The last ones ask for the first ones of the next steps. `columns` fill whole lines.
        """
        fn = self.fn
        ahead = min(columns, self.early // self.size)
        here, behind = (
            [fn.gep(self.base, fn.mul(fn.add(first, i), self.along)) for i in range(count)]
            for first in (step, fn.add(step, count))
        )
        edge = columns - ahead
        return [
            (0, edge, lambda at: self._ask(here, fn.add(at, ahead))),
            (edge, columns, lambda at: self._ask(behind, fn.sub(at, edge))),
        ]

    def asking(self, step: Integer, count: int, columns: int) -> Callable[[Integer], None]:
        """Return what asks for later columns, or from the last ones on for the next steps."""
        fn = self.fn
        ahead = min(columns, self.early // self.size)
        edge = columns - ahead
        here = [fn.gep(self.base, fn.mul(fn.add(step, i), self.along)) for i in range(count)]
        wrapped = count * self.along // self.size - columns

        def ask(column: Integer) -> None:
            is_last = fn.compare("sge", column, edge)
            further = fn.select(is_last, "i64", wrapped, 0)
            self._ask(here, fn.add(fn.add(column, ahead), further))

        return ask

    def _ask(self, rows: list[str], column: Integer) -> None:
        fn = self.fn
        for row in rows:
            there = fn.gep(row, fn.mul(column, self.size))
            for line in range(0, self.run, LINE):
                fn.prefetch(fn.gep(there, line), 1)


def strip_ahead(
    elements: Elements, side: OperandSide, column: Integer, run: int
) -> StripAhead | None:
    """Return what asks for strips from `column` on, None where the operand is not read so.

    It is called once for each run of `run` bytes of each step.
    """
    lying = _lying(side)
    if lying is None:
        return None
    fn = elements.function
    base = fn.gep(side.address(fn, "%batch", lying.view), fn.mul(column, lying.size))
    return _strips(elements, base, lying, run)


def columns_ahead(elements: Elements, side: OperandSide) -> StripAhead | None:
    """Return the same for columns that lie along k: a step is a column, a column one of k."""
    lying = _lying(side, is_along_k=True)
    if lying is None:
        return None
    base = side.address(elements.function, "%batch", lying.view)
    return _strips(elements, base, lying, LINE)


def _strips(elements: Elements, base: str, lying: _Lying, run: int) -> StripAhead:
    early = -(-fetching_for(elements.target).strips // run) * run
    return StripAhead(elements.function, base, lying.along, lying.size, early, run)
