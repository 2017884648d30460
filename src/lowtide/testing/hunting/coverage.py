"""Counts of cells, and wishes for those seen least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import Final, final

from lowtide.testing.hunting.arrays import TYPES
from lowtide.testing.hunting.cells import Cell
from lowtide.testing.hunting.operations.in_place import READERS, UPDATES
from lowtide.testing.hunting.pairs import FUSIBLE, links, why_apart
from lowtide.testing.hunting.scope import ModuleDraft, Scope
from lowtide.testing.hunting.table import MAKERS, REGIONS
from lowtide.testing.hunting.writing import ModuleWish

LAYOUT_KINDS: Final = ("row-major", "some", "permuted", "empty")

_DRAWS: Final = 12


def _draws(opcode: str, type_: str) -> bool:
    """Whether an operation can be drawn for an element type at all."""
    for seed in range(_DRAWS):
        if MAKERS[opcode](Scope(ModuleDraft(Random(seed))), type_) is not None:
            return True
    return False


@cache
def wished() -> dict[str, tuple[Cell, ...]]:
    """Return by table the cells that modules can be asked to reach."""
    opcodes = [x for x in MAKERS if x != "constant"]
    types = [("type", x, t) for x in opcodes for t in TYPES if _draws(x, t)]
    return {
        "type": tuple(types),
        "layout": tuple([("layout", x, k) for x in (*opcodes, *REGIONS) for k in LAYOUT_KINDS]),
        "update": tuple([("update", x, y) for x in UPDATES for y in READERS]),
        "fused": tuple([("fused", x, y) for x, y in _pairs() if links(x, y)]),
    }


def apart() -> Counter[str]:
    """Return how many pairs cannot meet in a fusion, by the reason."""
    return Counter([why_apart(x, y) for x, y in _pairs() if not links(x, y)])


def _pairs() -> list[tuple[str, str]]:
    return [(x, y) for i, x in enumerate(FUSIBLE) for y in FUSIBLE[i:]]


_SHARES: Final = ("type", "type", "layout", "update", "update", "fused", "fused")


@final
class CellCounts:
    """How often each cell was reached, and asked for."""

    def __init__(self) -> None:
        self.reached: Counter[Cell] = Counter()
        self.asked: Counter[Cell] = Counter()

    def wish(self, random: Random) -> ModuleWish:
        """Return a wish for one of the cells seen least, of a table drawn at random."""
        cells = wished()[random.choice(_SHARES)]
        return _wish(self.least(cells, random), random)

    def least(self, cells: Sequence[Cell], random: Random) -> Cell:
        """Return one of the cells reached and asked for least, which is asked for now."""
        some = random.sample(cells, min(24, len(cells)))
        cell = min(some, key=lambda x: (self.reached[x] + self.asked[x] // 2, self.asked[x]))
        self.asked[cell] += 1
        return cell

    def add(self, cells: Iterable[Cell]) -> bool:
        """Count cells of a module; return whether one was new."""
        found = list(cells)
        is_new = any(x not in self.reached for x in found)
        self.reached.update(found)
        return is_new

    def as_rows(self) -> list[list[object]]:
        """Return the counts as lists: reached, asked for, cell."""
        cells = sorted({*self.reached, *self.asked})
        return [[self.reached[x], self.asked[x], *x] for x in cells]

    def read_rows(self, rows: Sequence[Sequence[object]]) -> None:
        """Take the counts that `as_rows` gave."""
        for reached, asked, *names in rows:
            cell = tuple([str(x) for x in names])
            if reached:
                self.reached[cell] = int(str(reached))
            if asked:
                self.asked[cell] = int(str(asked))


def _wish(cell: Cell, random: Random) -> ModuleWish:
    table, first, second = cell
    if table == "type":
        return ModuleWish(first, second)
    if table == "layout":
        return ModuleWish(first, random.choice(("f32", "s32", "bf16", "f64", "c64", "s8")), second)
    if table == "update":
        return ModuleWish(update=first, reader=second)
    return ModuleWish(first, random.choice(links(first, second)).first_type, partner=second)
