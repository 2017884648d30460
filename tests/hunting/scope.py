"""A computation in the making: its lines, and the arrays that further operations can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod
from random import Random
from typing import Final

from tests.hunting.arrays import COMPLEX, TYPES, DrawnArray, row_major, shape_text, zero

from lowtide.records import dataclass

MOST_NOISE: Final = 2
"""After so many operations that round, an array is no operand of one that rounds again."""

_MOST_RANK: Final = 4

_SIZES: Final = (1, 2, 3, 4, 5, 7)
_LARGE: Final = (8, 16, 17, 19, 33, 40)
_WIDE: Final = (
    *(48, 64, 65, 96, 100, 127, 128, 192, 255, 256, 300, 384, 512, 513, 640, 1000, 1024, 1025),
    *(1280, 2048, 2049, 3000, 4096, 4099, 5000, 8192, 12288, 16384, 20000, 32768, 40000, 65537),
)
"""Sizes of wide modules: those at which native code goes other ways, and some beside them."""

_MOST_ELEMENTS: Final = 2_000
_MOST_ELEMENTS_WIDE: Final = 100_000


@dataclass(slots=True)
class ModuleDraft:
    """The module in the making: its computations so far, and the habits of all of them.

    Layouts are row-major but for one in `layouts` arrays (0: all are row-major); a size is 0 once
    in `zeros` sizes (0: never), and large once in `large`. Some sizes of a `wide` module are of
    hundreds and thousands. `notes` are cells of coverage that the text does not show.
    """

    random: Random
    layouts: int = 0
    zeros: int = 0
    large: int = 6
    wide: bool = False
    depth: int = 2
    computations: list[str] = field(default_factory=list)
    notes: set[tuple[str, ...]] = field(default_factory=set)
    wanted: list[str] = field(default_factory=list)
    names: int = 0

    @property
    def most(self) -> int:
        """About how many elements an array may have."""
        return _MOST_ELEMENTS_WIDE if self.wide else _MOST_ELEMENTS

    def name(self, stem: str) -> str:
        """Return a name that nothing has yet."""
        self.names += 1
        return f"{stem}{self.names}"

    def computation(self, stem: str, lines: Sequence[str]) -> str:
        """Add a computation; return its name."""
        name = self.name(stem)
        body = "\n  ".join(lines)
        self.computations.append(f"{name} {{\n  {body}\n}}\n")
        return name


class Scope:
    """One computation: what it has read and computed so far.

    An inner computation (with a `parent`) asks its parent for the arrays that it lacks, and lists
    them in `operands`; the entry makes parameters of them. The next operation reads the array in
    `focus`, or one of the sizes in `hint`, if it can; the first operand for which `supply` makes an
    array is that one. An operation that rounds may read what has `noisiest` roundings behind it.
    """

    def __init__(self, draft: ModuleDraft, parent: Scope | None = None) -> None:
        self.draft = draft
        self.random = draft.random
        self.parent = parent
        self.level: int = 0 if parent is None else parent.level + 1
        self.lines: list[str] = []
        self.arrays: list[DrawnArray] = []
        self.parameters: list[DrawnArray] = []
        self.operands: list[DrawnArray] = []
        self.focus: DrawnArray | None = None
        self.hint: tuple[int, ...] | None = None
        self.supply: Supply | None = None
        self.noisiest: int = 0
        self.is_fused: bool = parent is not None and parent.is_fused

    # -- choices -------------------------------------------------------------------------------

    def chance(self, one_in: int) -> bool:
        """Return True once in so many times; never for 0."""
        return one_in > 0 and self.random.randrange(one_in) == 0

    def size(self) -> int:
        """Return the size of a dimension."""
        if self.chance(self.draft.zeros):
            return 0
        if self.draft.wide and self.chance(3):
            return self.random.choice(_WIDE)
        return self.random.choice(_LARGE if self.chance(self.draft.large) else _SIZES)

    def sizes(self, least: int = 0, most: int | None = None) -> tuple[int, ...]:
        """Return the sizes of an array of some rank that has not too many elements."""
        wanted = self.hint if self.focus is None else self.focus.sizes
        if wanted is not None and least <= len(wanted) <= (_MOST_RANK if most is None else most):
            return wanted
        sizes = [
            self.size() for _ in range(self.random.randint(least, 3 if most is None else most))
        ]
        return tuple(halved(sizes, self.draft.most))

    def layout(self, rank: int) -> tuple[int, ...]:
        """Return an order of dimensions in memory."""
        order = list(row_major(rank))
        if rank > 1 and self.chance(self.draft.layouts):
            self.random.shuffle(order)
        return tuple(order)

    def type(self, allowed: Sequence[str] = TYPES) -> str:
        """Return an element type, mostly one of the first."""
        return allowed[min(self.random.randrange(len(allowed)), self.random.randrange(40))]

    # -- lines ---------------------------------------------------------------------------------

    def emit(
        self,
        type_: str,
        sizes: tuple[int, ...],
        expression: str,
        noise: int = 0,
        layout: tuple[int, ...] | None = None,
    ) -> DrawnArray:
        """Add an operation with one result, which further ones can read."""
        order = self.layout(len(sizes)) if layout is None else layout
        made = DrawnArray(self.draft.name("x"), type_, tuple(sizes), order, noise)
        self.lines.append(f"{made.name} = {made.shape} {expression}")
        self.arrays.append(made)
        return made

    def emit_parts(
        self, parts: Sequence[tuple[str, tuple[int, ...]]], expression: str, noise: int = 0
    ) -> list[DrawnArray]:
        """Add an operation whose result is a tuple of arrays; return these."""
        layouts = [self.layout(len(sizes)) for _, sizes in parts]
        shapes = [shape_text(t, s, o) for (t, s), o in zip(parts, layouts, strict=True)]
        return self.parts_of(parts, layouts, shapes, expression, noise)

    def parts_of(
        self,
        parts: Sequence[tuple[str, tuple[int, ...]]],
        layouts: Sequence[tuple[int, ...]],
        shapes: Sequence[str],
        expression: str,
        noise: int = 0,
    ) -> list[DrawnArray]:
        """Add an operation with a tuple of arrays of given layouts; return these."""
        name = self.draft.name("t")
        self.lines.append(f"{name} = ({', '.join(shapes)}) {expression}")
        return [
            self.emit(t, s, f"get-tuple-element({name}), index={number}", noise, order)
            for number, ((t, s), order) in enumerate(zip(parts, layouts, strict=True))
        ]

    def constant(self, type_: str, text: str) -> DrawnArray:
        """Add a scalar constant."""
        return self.emit(type_, (), f"constant({text})")

    # -- operands ------------------------------------------------------------------------------

    def array(
        self, type_: str, sizes: tuple[int, ...], noise: int = MOST_NOISE - 1, fresh: int = 3
    ) -> DrawnArray:
        """Return an array of a type and sizes: one of those here, one made to fit, or another.

        It has at most so much `noise`. Once in `fresh` times it is asked for outside.
        """
        if self.supply is not None:
            supply, self.supply = self.supply, None
            made = supply(type_, sizes, noise)
            if made is not None:
                return made
            self.supply = supply
        focus = self.focus
        if focus is not None and (focus.type, focus.sizes) == (type_, sizes):
            self.focus = None
            if focus.noise <= noise:
                return focus
        known = [
            x for x in self.arrays if x.type == type_ and x.sizes == sizes and x.noise <= noise
        ]
        if known and not self.chance(fresh):
            return self.random.choice(known[-6:])
        others = [x for x in self.arrays if x.noise <= noise and x.count and x.rank]
        if others and 0 not in sizes and self.chance(2):
            return self.fitted(self.random.choice(others[-4:]), type_, sizes)
        return self.given(type_, sizes, noise)

    def given(self, type_: str, sizes: tuple[int, ...], noise: int) -> DrawnArray:
        """Return an array from outside: a parameter, or rarely a constant."""
        if self.chance(12) and not sizes and type_ != "pred":
            return self.constant(type_, zero(type_))
        if self.parent is None:
            order = self.layout(len(sizes))
            return self.parameter(type_, sizes, order, 0)
        operand = self.parent.array(type_, sizes, noise)
        return self.passed(operand)

    def passed(self, operand: DrawnArray) -> DrawnArray:
        """Return an array of the parent as this computation reads it."""
        for mine, theirs in zip(self.parameters, self.operands, strict=True):
            if theirs.name == operand.name:
                return mine
        self.operands.append(operand)
        return self.parameter(operand.type, operand.sizes, operand.layout, operand.noise)

    def parameter(
        self, type_: str, sizes: tuple[int, ...], layout: tuple[int, ...], noise: int
    ) -> DrawnArray:
        """Add a parameter."""
        number = len(self.parameters)
        made = self.emit(type_, sizes, f"parameter({number})", noise, layout)
        self.parameters.append(made)
        return made

    def index(self, most: int) -> DrawnArray:
        """Return a scalar s32, mostly up to `most`, the start of a slice."""
        if self.chance(3):
            return self.constant("s32", str(self.random.randint(0, max(0, most))))
        known = [x for x in self.arrays if x.type == "s32" and not x.sizes and not x.noise]
        if known and self.chance(2):
            return self.random.choice(known)
        return self.given("s32", (), 0)

    def fitted(self, array: DrawnArray, type_: str, sizes: tuple[int, ...]) -> DrawnArray:
        """Return an array of another type and sizes made of the elements of one."""
        if array.type != type_:
            array = self.converted(array, type_)
        if array.sizes == sizes:
            return array
        wanted = prod(sizes)
        if array.rank != 1 and array.count != wanted:
            array = self.emit(array.type, (array.count,), f"reshape({array.name})", array.noise)
        if array.count > wanted:
            array = self.emit(
                array.type, (wanted,), f"slice({array.name}), slice={{[0:{wanted}]}}", array.noise
            )
        elif array.count < wanted:
            fill = self.constant(array.type, zero(array.type))
            array = self.emit(
                array.type,
                (wanted,),
                f"pad({array.name}, {fill.name}), padding=0_{wanted - array.count}",
                array.noise,
            )
        if array.sizes == sizes:
            return array
        return self.emit(array.type, sizes, f"reshape({array.name})", array.noise)

    def converted(self, array: DrawnArray, type_: str) -> DrawnArray:
        """Return an array in another element type, by a path on which every value has a meaning."""
        if array.type in COMPLEX and type_ not in COMPLEX:
            part = "f32" if array.type == "c64" else "f64"
            array = self.emit(part, array.sizes, f"real({array.name})", array.noise)
        if array.type == type_:
            return array
        if type_ == "pred" or (array.noise and type_[0] in "su"):
            other = self.given(array.type, array.sizes, 0) if array.noise else array
            return self.emit(type_, array.sizes, f"convert({other.name})")
        return self.emit(type_, array.sizes, f"convert({array.name})", array.noise)

    # -- ends ----------------------------------------------------------------------------------

    def finish(self, stem: str, root: str) -> str:
        """Add the computation to the module, whose last line, `NAME = ...`, is the root."""
        return self.draft.computation(stem, [*self.lines, f"ROOT {root}"])

    def tuple_line(self, arrays: Sequence[DrawnArray]) -> str:
        """Return the line of a tuple of arrays."""
        shapes = ", ".join([x.shape for x in arrays])
        names = ", ".join([x.name for x in arrays])
        return f"{self.draft.name('t')} = ({shapes}) tuple({names})"

    def root_line(self, arrays: Sequence[DrawnArray]) -> str:
        """Return the root line that gives arrays away: a copy of one, or a tuple of more."""
        if len(arrays) != 1:
            return self.tuple_line(arrays)
        (array,) = arrays
        last = self.lines[-1]
        if last.startswith(f"{array.name} = ") and " parameter(" not in last:
            self.lines.pop()
            return last
        return f"{self.draft.name('r')} = {array.shape} copy({array.name})"


def joined(arrays: Sequence[DrawnArray]) -> str:
    """Return the names of arrays as operands."""
    return ", ".join([x.name for x in arrays])


def halved(sizes: Sequence[int], most: int) -> list[int]:
    """Return sizes of which the largest is halved until their product is at most `most`."""
    found = list(sizes)
    while prod(found) > most:
        found[found.index(max(found))] //= 2
    return found


def bounds(starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> str:
    """Return the attribute of a slice."""
    parts = [f"[{a}:{b}:{c}]" for a, b, c in zip(starts, limits, strides, strict=True)]
    return f"slice={{{', '.join(parts)}}}"


Supply = Callable[[str, tuple[int, ...], int], DrawnArray | None]
"""Makes an array of a type and sizes, with at most so much noise; None where it cannot."""

Maker = Callable[[Scope, str], DrawnArray | None]
"""Draws an instruction whose result has an element type; None where nothing in scope fits."""
