"""Findings on sizes: the peak as a function of one, and the largest that fits, with its proof."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from lowtide.records import dataclass
from lowtide.report.drawing import Paint, elide, visible
from lowtide.report.schema import Json, TextReport
from lowtide.report.units import unit_for

SCHEMA = "lowtide.fit/1"


class FitProof(StrEnum):
    """What shows that a size fits, or that it does not."""

    PLAN = "plan"
    """A plan that fits."""
    BOUND = "bound"
    """No order of the program needs as little as the limit."""
    NO_PLAN = "no plan"
    """The best plan that is known does not fit; it is not proved that none does."""


@dataclass(frozen=True, slots=True)
class PeakPiece:
    """The peak as a polynomial, from size `first` to `last`, both included; None is without end.

    `coefficients` are those of the powers of the size, from the constant one up.
    """

    first: int
    last: int | None
    coefficients: tuple[Fraction, ...]

    def at(self, size: int) -> int:
        """Return the peak at a size, in bytes."""
        return int(sum([c * size**power for power, c in enumerate(self.coefficients)]))

    def text(self, name: str) -> str:
        """Return the polynomial, such as `3,000 + 16 B + 4 B^2`."""
        powers = ["", f" {name}", *[f" {name}^{k}" for k in range(2, len(self.coefficients))]]
        parts = []
        for c, power in zip(self.coefficients, powers, strict=True):
            if c:
                sign = "- " if c < 0 else "+ "
                parts.append(f"{sign}{_number(abs(c))}{power}")
        return " ".join(parts).removeprefix("+ ") or "0"

    def to_json(self) -> Json:
        """Return the entry of the schema's `peak`; coefficients are numbers or "a/b"."""
        return {
            "first": self.first,
            "last": self.last,
            "coefficients": [
                int(c) if c.denominator == 1 else f"{c.numerator}/{c.denominator}"
                for c in self.coefficients
            ],
        }


def _number(c: Fraction) -> str:
    return f"{int(c):,}" if c.denominator == 1 else f"{c.numerator:,}/{c.denominator:,}"


@dataclass(frozen=True, slots=True)
class SizedPlan:
    """The plan of a program at a size; bytes of all memory of one call.

    `bound_bytes` is what no order of the program beats. `proof` says what it shows of the limit.
    """

    size: int
    total_bytes: int
    bound_bytes: int
    proof: FitProof

    def to_json(self) -> Json:
        """Return the schema's `largest` or `next`."""
        return {
            "size": self.size,
            "total_bytes": self.total_bytes,
            "bound_bytes": self.bound_bytes,
            "proof": self.proof.value,
        }


@dataclass(frozen=True, slots=True)
class FitReport(TextReport):
    """The largest size of a dimension at which a program fits a limit of bytes.

    `name` is what the dimension is called, `given` its size in the program, and `step` the number
    that all sizes are multiples of. `largest` is None where not even the least size fits; `next`
    is the following one, None where the program needs no more at any size. `peak` is the memory of
    a call without holes between buffers, with the kernels and the order that the program has as
    given: exact for these, and () where these kernels cannot be had at other sizes. `largest` and
    `next` are planned anew, with kernels and an order of their own. `arguments` are those that
    grow.
    """

    module: str
    name: str
    given: int
    step: int
    limit_bytes: int
    largest: SizedPlan | None
    next: SizedPlan | None
    peak: tuple[PeakPiece, ...]
    arguments: tuple[str, ...]
    plans: int

    def __repr__(self) -> str:
        largest = "no size" if self.largest is None else f"{self.name} = {self.largest.size:,}"
        return visible(f"<FitReport {self.module}: {largest} fits {self.limit_bytes:,} bytes>")

    def __str__(self) -> str:
        return visible("\n".join(fit_lines(self)))

    def to_json(self) -> Json:
        """Return the report in the schema "lowtide.fit/1"."""
        return {
            "schema": SCHEMA,
            "module": self.module,
            "name": self.name,
            "given": self.given,
            "step": self.step,
            "limit_bytes": self.limit_bytes,
            "largest": None if self.largest is None else self.largest.to_json(),
            "next": None if self.next is None else self.next.to_json(),
            "peak": [x.to_json() for x in self.peak],
            "arguments": list(self.arguments),
            "plans": self.plans,
        }


def fit_lines(fit: FitReport, width: int = 100, *, color: bool = False) -> list[str]:
    """Return the report for people on `width` columns, as lines."""
    paint = Paint(color=color)
    unit = unit_for(fit.limit_bytes)
    name = fit.name
    lines = [elide(f"{fit.module}: {name} is {fit.given:,} as given", width)]
    if fit.largest is None:
        lines.append(paint("bad", f"no {name} fits {unit.text(fit.limit_bytes)}"))
    elif fit.next is None:
        lines.append(f"every {name} fits {unit.text(fit.limit_bytes)}")
    else:
        size = f"{name} = {fit.largest.size:,}"
        lines.append(f"{paint('good', size)} is the largest that fits {unit.text(fit.limit_bytes)}")
    if fit.step > 1:
        lines.append(f"(sizes are multiples of {fit.step:,}: the program splits what grows)")
    lines.append("")
    lines += [
        elide(f"  {name} = {x.size:<8,} {_proved(x, fit.limit_bytes)}", width)
        for x in (fit.largest, fit.next)
        if x is not None
    ]
    lines += ["", *_peak_lines(fit, width)]
    if fit.arguments:
        lines.append(elide(f"Arguments that grow: {', '.join(fit.arguments)}.", width))
    lines.append(f"{fit.plans} sizes were planned.")
    return lines


def _proved(x: SizedPlan, limit: int) -> str:
    unit = unit_for(limit)
    if x.proof is FitProof.PLAN:
        return f"fits: its plan takes {unit.text(x.total_bytes)}"
    if x.proof is FitProof.BOUND:
        return f"does not fit, proved: no order needs less than {unit.text(x.bound_bytes)}"
    plan, bound = unit.text(x.total_bytes), unit.text(x.bound_bytes)
    return f"does not fit: the best plan known takes {plan}; proved are {bound}"


def _peak_lines(fit: FitReport, width: int) -> list[str]:
    if not fit.peak:
        return ["The peak is not known as a polynomial: the kernels hold for their sizes only."]
    lines = ["Peak in bytes, with the kernels and order as given, without holes between buffers:"]
    for piece in fit.peak:
        last = "" if piece.last is None else f"{piece.last:,}"
        sizes = f"{fit.name} = {piece.first:,}" if piece.last == piece.first else ""
        sizes = sizes or f"{fit.name} = {piece.first:,}..{last}"
        lines.append(elide(f"  {sizes:<18} {piece.text(fit.name)}", width))
    return lines
