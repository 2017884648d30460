"""Cases whose text is lines of JSON: inputs, constants, nodes; a line that nothing needs can go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.hunting.family import HuntedCase, Shows, smaller_lines
from tests.hunting.findings import Court

from lowtide.ir.literal import ELEMENT_TYPES, Array

Document = dict[str, Any]


class LineFamily:
    """Cases of lines, made smaller by leaving lines out."""

    def smaller(self, case: HuntedCase, shows: Shows) -> HuntedCase:
        """Return the case without the lines that it shows the same without."""
        return smaller_lines(case, shows)

    def words(self, case: HuntedCase) -> str:
        """Return what the lines do, each kind once."""
        named = {str(x.get("node") or x.get("step")) for x in documents(case.text)}
        return " ".join(sorted(named - {"None"}))


def documents(text: str) -> list[Document]:
    """Return what the lines say."""
    return [json.loads(line) for line in text.splitlines()]


def drawn_array(type_: str, sizes: Sequence[int], random: np.random.Generator) -> Array:
    """Return small numbers, multiples of 1/8 where they are no integers."""
    if type_ == "bool":
        return random.integers(0, 2, sizes).astype(bool)
    low = 0 if type_.startswith("u") else -4
    whole = random.integers(low, 5, sizes)
    return (whole if "int" in type_ else whole / 8 + random.integers(-1, 2, sizes)).astype(type_)


def compare(
    court: Court,
    judge: str,
    got: Sequence[Array],
    expected: Sequence[Array],
    rounded: Sequence[bool],
) -> None:
    """Add a finding for the first result that is too far from what is expected."""
    for number, (a, b, is_rounded) in enumerate(zip(got, expected, rounded, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            words = f"{a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
            court.found(judge, "wrong", f"result {number}: {words}")
            return
        bits = ELEMENT_TYPES[b.dtype].bits
        unit = {64: 1e-6, 32: 1e-4, 16: 3e-2}.get(bits, 0.0) if is_rounded else 0.0
        if b.dtype.kind in "iub":
            wrong = a != b
        else:
            wide = b.astype(np.float64)
            # What is left of terms that cancel is as wrong as these, which are of about 1.
            scale = np.max(np.abs(wide[np.isfinite(wide)]), initial=float(is_rounded))
            close = np.isclose(a.astype(np.float64), wide, unit, unit * scale, equal_nan=True)
            wrong = ~close
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0].tolist())
            court.found(judge, "wrong", f"result {number} at {place}: {a[place]}, not {b[place]}")
            return
