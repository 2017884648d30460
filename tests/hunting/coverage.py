"""Counts of cells, and wishes for those seen least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import Final, final

from tests.hunting.arrays import TYPES
from tests.hunting.cells import Cell
from tests.hunting.operations.in_place import READERS, UPDATES
from tests.hunting.operations.layers import LAYERS, layer_types
from tests.hunting.pairs import FUSIBLE, links, why_apart
from tests.hunting.scope import ModuleDraft, Scope
from tests.hunting.table import MAKERS, REGIONS
from tests.hunting.writing import ModuleWish

LAYOUT_KINDS: Final = ("row-major", "some", "permuted", "empty")

_DRAWS: Final = 12


def _draws(opcode: str, type_: str) -> bool:
    """Whether an operation can be drawn for an element type at all."""
    for seed in range(_DRAWS):
        if MAKERS[opcode](Scope(ModuleDraft(Random(seed))), type_) is not None:
            return True
    return False


def _can_lie(opcode: str, kind: str) -> bool:
    """Whether an operation can be drawn with layouts of a kind: two arrays for some of them."""
    if opcode in REGIONS or kind == "row-major":
        return True
    for type_ in TYPES:
        for seed in range(_DRAWS):
            sizes = _sizes_of(opcode, type_, seed, zeros=3 if kind == "empty" else 0)
            wide = sum([len(x) > 1 for x in sizes])
            if any(0 in x for x in sizes) if kind == "empty" else wide > (kind == "some"):
                return True
    return False


def _sizes_of(opcode: str, type_: str, seed: int, zeros: int) -> list[tuple[int, ...]]:
    """The sizes of what an operation reads and makes; none where it is not drawn."""
    scope = Scope(ModuleDraft(Random(seed), zeros=zeros))
    found: list[tuple[int, ...]] = []
    scope.supply = lambda wanted, sizes, noise: found.append(sizes)
    made = MAKERS[opcode](scope, type_)
    return [] if made is None else [*found, made.sizes]


def never_lie() -> tuple[Cell, ...]:
    """Return the operations and kinds of layouts that there cannot be."""
    kinds = [("layout", x, k) for x in _OPCODES for k in LAYOUT_KINDS]
    return tuple([x for x in kinds if x not in {*wished()["layout"]}])


_OPCODES: Final = (*[x for x in MAKERS if x != "constant"], *REGIONS)


@cache
def wished() -> dict[str, tuple[Cell, ...]]:
    """Return by table the cells that modules can be asked to reach."""
    opcodes = [x for x in MAKERS if x != "constant"]
    types = [("type", x, t) for x in opcodes for t in TYPES if _draws(x, t)]
    return {
        "type": tuple(types),
        "layout": tuple(
            [("layout", x, k) for x in _OPCODES for k in LAYOUT_KINDS if _can_lie(x, k)]
        ),
        "update": tuple([("update", x, y) for x in UPDATES for y in READERS]),
        "layer": tuple([("layer", x, t) for x in LAYERS for t in layer_types(x)]),
        "fused": tuple([("fused", x, y) for x, y in _pairs() if links(x, y)]),
    }


def apart() -> Counter[str]:
    """Return how many pairs cannot meet in a fusion, by the reason."""
    return Counter([why_apart(x, y) for x, y in _pairs() if not links(x, y)])


def _pairs() -> list[tuple[str, str]]:
    return [(x, y) for i, x in enumerate(FUSIBLE) for y in FUSIBLE[i:]]


_SHARES: Final = ("type", "type", "layout", "update", "update", "fused", "fused", "layer")


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
    if table in ("type", "layer"):
        return ModuleWish(first, second)
    if table == "layout":
        return ModuleWish(first, random.choice(("f32", "s32", "bf16", "f64", "c64", "s8")), second)
    if table == "update":
        return ModuleWish(update=first, reader=second)
    return ModuleWish(first, random.choice(links(first, second)).first_type, partner=second)
