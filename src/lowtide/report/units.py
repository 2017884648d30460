"""Sizes for people: one unit for all figures that are compared with one another."""

from __future__ import annotations

from typing import Final

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """A decimal unit of memory, `nbytes` bytes, written with `digits` digits after the point."""

    name: str
    nbytes: int
    digits: int

    def number(self, nbytes: int) -> str:
        """Return a size without its unit, e.g. `2,531.7`; a little that rounds to 0 is `<0.1`."""
        if nbytes and not self.is_visible(nbytes):
            return f"<{10**-self.digits:.{self.digits}f}"
        return f"{nbytes / self.nbytes:,.{self.digits}f}"

    def text(self, nbytes: int) -> str:
        """Return a size with its unit, e.g. `2,531.7 MB`."""
        return f"{self.number(nbytes)} {self.name}"

    def is_visible(self, nbytes: int) -> bool:
        """Whether a size does not round to 0."""
        return nbytes * 2 * 10.0**self.digits >= self.nbytes


BYTES: Final = Unit("B", 1, 0)
_UNITS: Final = (
    Unit("TB", 10**12, 2),
    Unit("GB", 10**9, 2),
    Unit("MB", 10**6, 1),
    Unit("KB", 10**3, 1),
)
_LEAST: Final = 10
"""The least number that the main figure shows, so that it has three digits or more."""


def unit_for(nbytes: int) -> Unit:
    """Return the unit in which a size, and all that is compared with it, reads well."""
    for unit in _UNITS:
        if nbytes >= _LEAST * unit.nbytes:
            return unit
    return BYTES


def percentage(part: int, whole: int) -> str:
    """Return a share as `32%`; `<1%` for what is less than half of a percent but not nothing."""
    if not part or not whole:
        return "0%"
    share = 100 * part / whole
    return f"{int(share + 0.5)}%" if share >= 0.5 else "<1%"
