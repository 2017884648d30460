"""Results of `lowtide run`: what they look like in a few numbers, and as an .npz file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from lowtide.cli.console import write_file
from lowtide.ir import Shape, ShapeIndex
from lowtide.ir.literal import Array, storable
from lowtide.records import dataclass

_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Output:
    """A leaf of the result: its index in the result's tuple, its shape and its value."""

    index: ShapeIndex
    shape: Shape
    value: Array

    @property
    def name(self) -> str:
        """The index in braces, as HLO writes it."""
        return "{" + ",".join(map(str, self.index)) + "}"

    def first_values(self) -> list[Any]:
        """Return the first few elements, row major, as Python numbers."""
        return [_plain(x) for x in self.value.reshape(-1)[:_SHOWN]]

    def summary(self) -> dict[str, object]:
        """Return min, max and mean of the finite elements, and how many are not finite.

        Of complex elements they are those of the absolute values. None where nothing is finite.
        """
        wide = np.abs(self.value) if self.value.dtype.kind == "c" else self.value
        wide = wide.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        found: dict[str, object] = {"min": None, "max": None, "mean": None}
        if finite.size:
            found = {
                "min": float(finite.min()),
                "max": float(finite.max()),
                "mean": float(finite.mean()),
            }
        return {**found, "not_finite": int(wide.size - finite.size)}

    def to_json(self) -> dict[str, object]:
        """Return the entry of the JSON document."""
        return {
            "index": list(self.index),
            "shape": self.shape.text(layout=False),
            **self.summary(),
            "first": [_json_number(x) for x in self.first_values()],
        }

    def row(self) -> list[str]:
        """Return the cells of the table for people."""
        summary = self.summary()
        cells = [_number(summary[name]) for name in ("min", "max", "mean")]
        first = ", ".join([_number(x) for x in self.first_values()])
        more = ", ..." if self.value.size > _SHOWN else ""
        odd = f"  ({summary['not_finite']:,} not finite)" if summary["not_finite"] else ""
        return [self.name, self.shape.text(layout=False), *cells, f"{first}{more}{odd}"]


def _plain(element: Any) -> Any:
    kind = np.asarray(element).dtype
    if kind.kind == "b":
        return bool(element)
    if kind.kind == "c":
        return complex(element)
    return int(element) if kind.kind in "iu" or "int" in kind.name else float(element)


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _json_number(value: Any) -> object:
    """JSON has neither complex numbers nor infinity: pairs and strings stand for them."""
    if isinstance(value, complex):
        return [_json_number(value.real), _json_number(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def output_table(outputs: Sequence[Output]) -> list[str]:
    """Return the table of all outputs, a header first."""
    rows = [["output", "shape", "min", "max", "mean", "first values"]]
    rows += [output.row() for output in outputs]
    widths = [max([len(row[i]) for row in rows]) for i in range(5)]
    lines = []
    for row in rows:
        left = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [f"{cell:>{width}}" for cell, width in zip(row[2:5], widths[2:], strict=True)]
        lines.append("  ".join([*left, *right, row[5]]).rstrip())
    return lines


def save_npz(path: Path, outputs: Sequence[Output]) -> None:
    """Write `out_0`, `out_1`, ...; types that NumPy does not know as unsigned of equal width."""
    arrays: dict[str, Any] = {f"out_{i}": storable(x.value) for i, x in enumerate(outputs)}
    write_file(path, lambda stream: np.savez(stream, allow_pickle=False, **arrays))
