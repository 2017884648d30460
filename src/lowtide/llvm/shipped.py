"""Machine code that comes with the package, so that no first process has to make it.

It is of units of lowtide's own, for any processor of a family. A file is named after what it was
made from: one of other sources is not found, and the unit is compiled as any other code.
`python -m tests.native_language.shipped --write` makes the files anew, and a test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lowtide.llvm.target import Target
from lowtide.native.functions import source_of

if TYPE_CHECKING:
    from lowtide.native import NativeUnit

FAMILIES: Final = {
    "x86_64-linux": Target("x86_64-unknown-linux-gnu", "x86-64", (), 16),
}
"""The processors that there is code for, by architecture and system, with what all of them have."""

FOLDER: Final = "machine_code"
"""Where the files lie, beside this one."""


def shipped_object(unit: NativeUnit, target: Target, sources: str) -> bytes | None:
    """Return the object of a unit, given the digest of its sources; None where there is none."""
    architecture, _, system = target.triple.partition("-")
    family = f"{architecture}-{'linux' if 'linux' in system else system}"
    if family not in FAMILIES:
        return None
    try:
        return source_of(__name__, f"{FOLDER}/{file_name(unit, family, sources)}")
    except OSError:
        return None


def file_name(unit: NativeUnit, family: str, sources: str) -> str:
    """Return the name of a unit's file, in which the digest of its sources stands."""
    return f"{unit.name}-{family}-{sources[:40]}.o"
