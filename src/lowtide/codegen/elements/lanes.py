"""Lanes of values and masks: single ones become vectors where others are."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.elements.scopes import Scopes
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.value import Value


class Vectors:
    """Writes vectors of `lanes` lanes from single values and masks."""

    def __init__(self, scopes: Scopes, lanes: int) -> None:
        self.scopes = scopes
        self.function = scopes.function
        self.lanes = lanes

    def same_lanes(self, values: Sequence[Value], level: int | None = None) -> list[Value]:
        """Return the values as vectors, if any of them is one; `level` as of `splat`."""
        known = self.scopes.level if level is None else level
        return self.all_lanes([Element((x,), known) for x in values])

    def all_lanes(self, found: Sequence[Element]) -> list[Value]:
        """Return single values of elements as vectors, if any of them is one, each at its level."""
        varies = any(x.values[0].lanes for x in found)
        pairs = [(x.values[0], x.level) for x in found]
        return [self.splat(x, at) if varies and not x.lanes else x for x, at in pairs]

    def splat(self, value: Value, level: int | None = None) -> Value:
        """Return a vector with a value in each lane, known at a level, by default at this one."""
        known = self.scopes.level if level is None else level
        found: Value = self.scopes.once(
            ("splat", value), known, lambda: memory.splat(self.function, value, self.lanes)
        )
        return found

    def both(self, a: Mask | None, b: Mask | None) -> Mask | None:
        """Return where both masks hold."""
        if a is None or b is None:
            return a or b
        lanes = max(a.lanes, b.lanes)
        level = max(a.level, b.level)
        x, y = self.mask_lanes(a, lanes), self.mask_lanes(b, lanes)
        type_ = f"<{lanes} x i1>" if lanes else "i1"
        name = self.scopes.once(
            ("and", x, y), level, lambda: self.function.op(f"and {type_} {x}, {y}")
        )
        return Mask(name, lanes, level)

    def mask_lanes(self, mask: Mask, lanes: int) -> str:
        """Return a mask as an i1 per lane, or as an i1 for no lanes."""
        if mask.lanes == lanes:
            return mask.name
        name: str = self.scopes.once(
            ("mask", mask.name), mask.level, lambda: self.function.splat("i1", mask.name, lanes)
        )
        return name


def tail_mask(lanes: int, count: int) -> Mask | None:
    """Return the mask of the first `count` lanes, None for all of them."""
    if count >= lanes:
        return None
    return Mask(first_lanes(count, lanes), lanes, 0)


def first_lanes(count: int, lanes: int) -> str:
    """Return a constant of `lanes` i1, of which the first `count` hold."""
    return "<" + ", ".join([f"i1 {str(i < count).lower()}" for i in range(lanes)]) + ">"
