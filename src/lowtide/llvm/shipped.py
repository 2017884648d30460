"""Machine code of lowtide's own units that comes with the package.

No first process has to make it. It is for any processor of a family.
`python -m tests.native_language.shipped --write` makes the files anew, and a test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lowtide.llvm.target import Target
from lowtide.native.shipped import family_of, shipped_code

if TYPE_CHECKING:
    from lowtide.native import NativeUnit

FAMILIES: Final = {"x86_64-linux": Target("x86_64-unknown-linux-gnu", "x86-64", (), 16)}
"""The processors that there is code for, by architecture and system, with what all of them have."""


def shipped_object(unit: NativeUnit, target: Target, sources: str) -> bytes | None:
    """Return the object of a unit, given the digest of its sources; None where there is none."""
    family = family_of(target.triple)
    return shipped_code(__name__, unit.name, family, sources) if family in FAMILIES else None
