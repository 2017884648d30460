"""Whole modules: steps around what is wished for, outputs, aliases, and a schedule or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.hunting.arrays import PLAIN, TYPES, DrawnArray
from tests.hunting.operations.in_place import READERS, UPDATES, draw_update
from tests.hunting.operations.layers import LAYERS, layer_types
from tests.hunting.operations.regions import REGIONS
from tests.hunting.pairs import draw_pair
from tests.hunting.scope import ModuleDraft, Scope
from tests.hunting.table import MAKERS, OUTSIDE

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ModuleWish:
    """What a module should have: an operation on an element type, in layouts of some kind.

    `partner` is an operation to be fused with it; `update` and `reader` ask for an update in place.
    """

    opcode: str = ""
    type: str = ""
    layouts: str = ""
    partner: str = ""
    update: str = ""
    reader: str = ""


@dataclass(frozen=True, slots=True)
class DrawnModule:
    """The text of a module, and the cells of coverage that the text does not show."""

    text: str
    notes: frozenset[tuple[str, ...]]


_LAYOUTS: Final[Mapping[str, tuple[int, int]]] = {
    "row-major": (0, 0),
    "permuted": (1, 0),
    "some": (3, 0),
    "empty": (3, 5),
}
"""By kind of layout: one array in how many is permuted, one size in how many is 0."""


_MOST_ATTEMPTS: Final = 60


def draw_module(seed: int, wish: ModuleWish) -> DrawnModule:
    """Return the module that follows from a seed and a wish; raises nothing.

    A pair that is wished for is drawn again until one of the two reads the other.
    """
    drawn = _drawn(f"{seed} {wish}", wish)
    cell = ("fused", *sorted((wish.opcode, wish.partner)))
    attempt = 0
    while wish.partner and cell not in drawn.notes and attempt < _MOST_ATTEMPTS:
        attempt += 1
        drawn = _drawn(f"{seed} {wish} {attempt}", wish)
    return drawn


def _drawn(seed: str, wish: ModuleWish) -> DrawnModule:
    random = Random(seed)
    layouts, zeros = _LAYOUTS[wish.layouts or random.choice(("row-major", "some", "some"))]
    draft = ModuleDraft(random, layouts, zeros or (60 if random.randrange(8) == 0 else 0))
    draft.wide = random.randrange(4) == 0
    entry = Scope(draft)
    _ModuleWriter(draft, wish).write(entry)
    return DrawnModule(_assembled(entry), frozenset(draft.notes))


class _ModuleWriter:
    """Writes the steps of one module."""

    def __init__(self, draft: ModuleDraft, wish: ModuleWish) -> None:
        self.random = draft.random
        self.wish = wish
        self.types = (wish.type, *PLAIN[: self.random.randint(1, len(PLAIN))])
        if self.random.randrange(6) == 0:
            self.types = (*self.types, *TYPES)

    def write(self, entry: Scope) -> None:
        """Write the entry: some steps before what is wished for, and some behind it."""
        self.steps(entry, self.random.choice((0, 0, 1, 2)))
        self._wished(entry)
        self.steps(entry, self.random.choice((0, 0, 1, 2)))
        if not entry.arrays:
            entry.array("f32", (3,))

    def steps(self, scope: Scope, number: int) -> None:
        """Write some steps that nobody wished for."""
        for _ in range(number):
            kind = self.random.randrange(10)
            if kind < 2:
                self._update(scope, "", "")
            elif kind < 5 and scope.level < 2:
                self._region(scope)
            elif kind == 5 and scope.draft.wide and not scope.level:
                name = self.random.choice([*LAYERS])
                self._layer(scope, name, self.random.choice(layer_types(name)))
            else:
                self._step(scope, "", "")

    def _wished(self, scope: Scope) -> None:
        wish = self.wish
        if wish.update:
            if self.random.randrange(2):
                self._fused(scope, lambda inner: self._update(inner, wish.update, wish.reader))
            else:
                self._update(scope, wish.update, wish.reader)
        elif wish.opcode in LAYERS:
            self._layer(scope, wish.opcode, wish.type)
        elif wish.opcode in REGIONS:
            REGIONS[wish.opcode](scope, self.steps)
        elif wish.partner:
            self._fused(scope, self._pair)
        elif self.random.randrange(3) == 0 and wish.opcode not in OUTSIDE:
            self._fused(scope, lambda inner: self._step(inner, wish.opcode, wish.type))
        else:
            self._step(scope, wish.opcode, wish.type)

    def _layer(self, scope: Scope, name: str, type_: str) -> None:
        before = {*scope.arrays}
        made = LAYERS[name](scope, type_)
        if made is None:
            return
        scope.draft.notes.add(("layer", name, type_))
        if scope.chance(2):  # Nothing else reads what lies within.
            left = {*before, *scope.parameters, made}
            scope.arrays = [x for x in scope.arrays if x in left]

    def _pair(self, scope: Scope) -> None:
        pair = self.wish.opcode, self.wish.partner
        if draw_pair(scope, *pair):
            scope.draft.notes.add(("fused", *sorted(pair)))

    def _fused(self, scope: Scope, draw: Callable[[Scope], object]) -> None:
        def steps(inner: Scope, number: int) -> None:
            draw(inner)
            self.steps(inner, self.random.choice((0, 0, 1)))

        REGIONS["fusion"](scope, steps)

    def _region(self, scope: Scope) -> None:
        opcode = "fusion" if scope.is_fused or scope.chance(3) else self.random.choice([*REGIONS])
        REGIONS[opcode](scope, self.steps)

    def _step(self, scope: Scope, opcode: str, type_: str) -> DrawnArray | None:
        if not opcode and scope.arrays and self.random.randrange(2):
            scope.focus = scope.arrays[-1]
            type_ = scope.focus.type
        made = None
        for _ in range(4):
            chosen = opcode or self.random.choice(_ANY)
            if scope.is_fused and not opcode and chosen in OUTSIDE:
                continue
            made = MAKERS[chosen](scope, type_ or self.random.choice(self.types) or "f32")
            if made is not None:
                break
        if not opcode:
            scope.focus = None
        return made

    def _update(self, scope: Scope, update: str, reader: str) -> None:
        for _ in range(4):
            made = draw_update(
                scope,
                update or self.random.choice([*UPDATES]),
                reader or self.random.choice([*READERS]),
                self.random.choice(self.types) or "f32",
            )
            if made is not None:
                return


_ANY: Final = (*MAKERS,)


# -- the module around the entry -----------------------------------------------------------------


def _assembled(entry: Scope) -> str:
    outputs = _outputs(entry)
    single = len(outputs) == 1 and entry.chance(2)
    root = entry.root_line(outputs) if single else entry.tuple_line(outputs)
    header = f"HloModule hunted{_header(entry, outputs, single)}"
    body = "\n  ".join([*entry.lines, f"ROOT {root}"])
    return "\n".join([header, *entry.draft.computations, f"ENTRY entry {{\n  {body}\n}}\n"])


def _outputs(entry: Scope) -> list[DrawnArray]:
    """What the caller gets: what nothing reads, mostly, and some other arrays."""
    text = "\n".join(entry.lines)
    unread = [
        x
        for x in entry.arrays
        if f"{x.name}," not in text and f"{x.name})" not in text and x not in entry.parameters
    ]
    outputs = [x for x in unread if not entry.chance(8)] or entry.arrays[-1:]
    wanted = [x for x in entry.arrays if x.name in entry.draft.wanted]
    if entry.chance(3):
        wanted.append(entry.random.choice(entry.arrays))
    return outputs + wanted


def _header(entry: Scope, outputs: list[DrawnArray], single: bool) -> str:
    words = ", is_scheduled=true" if entry.chance(2) else ""
    if not entry.chance(3):
        return words
    free = list(entry.parameters)
    aliases = []
    for number, x in enumerate(outputs):
        fitting = [y for y in free if y.shape == x.shape]
        if fitting:
            chosen = entry.random.choice(fitting)
            free.remove(chosen)
            kind = entry.random.choice(("may-alias", "may-alias", "must-alias"))
            place = "" if single else str(number)
            aliases.append(f"{{{place}}}: ({entry.parameters.index(chosen)}, {{}}, {kind})")
    return f"{words}, input_output_alias={{ {', '.join(aliases)} }}" if aliases else words
