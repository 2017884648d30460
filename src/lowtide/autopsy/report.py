"""A plan taken apart: what other plans of the same program need, why, and what would lower it.

`PlanReport.to_json` is the schema "lowtide.memory/1" with the figures of the plan, and a section
`autopsy`; all sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lowtide.ir import SourceLocation
from lowtide.records import dataclass
from lowtide.report.memory import MemoryReport
from lowtide.report.schema import Json, TextReport, source_json


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What plans of one program take beyond its arguments, in bytes; none is less than the next.

    `plan`: the plan at hand. `held`: the most of it that holds values at once, the sum of the
    slices that are needed at one step. `same_order`: the most that is live in the order of the
    plan, where results are written over operands that die. `other_order`: the same for the best
    order found. `without_copies`: the same without copies that the program does not need.
    `bound`: no order needs less.
    """

    plan: int
    held: int
    same_order: int
    other_order: int
    without_copies: int
    bound: int


@dataclass(frozen=True, slots=True)
class Cause:
    """`nbytes` of a plan that are there for one reason: its name, and a sentence about it."""

    name: str
    nbytes: int
    text: str

    def to_json(self) -> Json:
        """Return the entry of the section's `causes`."""
        return {"name": self.name, "bytes": self.nbytes, "text": self.text}


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to change, and what the program then needs beyond its arguments, in bytes.

    `change` is in words, `code` to be pasted into a program. `predicted_bytes` is computed,
    `verified_bytes` what the compiler planned when it was tried; None for what was not done.
    `how` says how both were found; `rebuilt` that not the program itself was compiled, but one
    rebuilt from the optimized module.
    """

    change: str
    code: str
    predicted_bytes: int | None
    verified_bytes: int | None
    how: str
    rebuilt: bool = False

    @property
    def nbytes(self) -> int | None:
        """What is needed then: as verified, or else as predicted."""
        return self.predicted_bytes if self.verified_bytes is None else self.verified_bytes

    @property
    def proof(self) -> str:
        """In a few words, how `nbytes` is known."""
        if self.verified_bytes is None:
            return "predicted"
        return "compiled from a rebuilt program" if self.rebuilt else "compiled to check"

    def to_json(self) -> Json:
        """Return the entry of the section's `remedies`."""
        return {
            "change": self.change,
            "code": self.code,
            "predicted_bytes": self.predicted_bytes,
            "verified_bytes": self.verified_bytes,
            "how": self.how,
        }


@dataclass(frozen=True, slots=True)
class LoopState:
    """What a loop copies each iteration, in bytes, and the reason for each copy it cannot avoid.

    `planned_bytes` is what the plan's own copies take, `needed_bytes` what remains where copies
    are made only if they have to be; 0 says that the state is proved to stay in place.
    """

    loop: str
    planned_bytes: int
    needed_bytes: int
    reasons: tuple[str, ...]
    source: SourceLocation | None = None

    @property
    def in_place(self) -> bool:
        """Whether the state is proved to be able to stay in place."""
        return not self.needed_bytes

    def to_json(self) -> Json:
        """Return the entry of the section's `loops`."""
        return {
            "loop": self.loop,
            "in_place": self.in_place,
            "copied_bytes": self.planned_bytes,
            "needed_bytes": self.needed_bytes,
            "reasons": list(self.reasons),
            "source": source_json(self.source),
        }


@dataclass(frozen=True, slots=True)
class Autopsy:
    """Why a plan takes what it takes.

    The bytes of `causes`, largest first, add up to what the plan takes above the bound.
    `same_order_arena` and `other_order_arena` are what these orders take with every buffer at its
    offset.
    """

    alternatives: Alternatives
    same_order_arena: int
    other_order_arena: int
    causes: tuple[Cause, ...]
    remedies: tuple[Remedy, ...]
    loops: tuple[LoopState, ...]

    @property
    def cause(self) -> str:
        """The name of the largest cause; "" where the plan is as good as is known."""
        plan = self.alternatives.plan
        known = [x for x in self.causes if x.name != UNKNOWN and x.nbytes * _SMALL >= plan]
        return known[0].name if known else ""

    @property
    def helpful(self) -> tuple[Remedy, ...]:
        """The remedies after which the program needs less, by a hundredth or more."""
        plan = self.alternatives.plan
        return tuple([x for x in self.remedies if x.nbytes is not None and _saves(plan, x.nbytes)])

    def to_json(self) -> Json:
        """Return the section `autopsy`."""
        other = self.alternatives
        return {
            "alternatives": {
                "plan": other.plan,
                "same_order": self.same_order_arena,
                "other_order": self.other_order_arena,
                "bound": other.bound,
            },
            "live": {
                "plan": other.held,
                "same_order": other.same_order,
                "other_order": other.other_order,
                "without_copies": other.without_copies,
            },
            "cause": self.cause,
            "causes": [x.to_json() for x in self.causes],
            "remedies": [x.to_json() for x in self.remedies],
            "loops": [x.to_json() for x in self.loops],
        }


UNKNOWN: Final = "unknown"
"""The cause of what is above the bound in every order that was tried."""

_SMALL: Final = 100


def _saves(plan: int, nbytes: int) -> bool:
    return (plan - nbytes) * _SMALL >= plan > 0


def causes_of(other: Alternatives, repeatable_bytes: int) -> tuple[Cause, ...]:
    """Return why a plan takes more than the bound, largest cause first.

    `repeatable_bytes` are live at the peak of the best order and hold what can be computed again
    from next to nothing.
    """
    rest = other.without_copies - other.bound
    repeatable = min(rest, repeatable_bytes)
    shares = {
        "order": other.same_order - other.other_order,
        "packing": other.plan - other.held,
        "in-place": other.held - other.same_order,
        "copies": other.other_order - other.without_copies,
        "materialisation": repeatable,
        UNKNOWN: rest - repeatable,
    }
    causes = [Cause(name, nbytes, _TEXTS[name]) for name, nbytes in shares.items() if nbytes]
    return tuple(sorted(causes, key=lambda cause: -cause.nbytes))


_TEXTS: Final[Mapping[str, str]] = {
    "order": "another order of the same instructions makes values later or frees them earlier",
    "packing": "holes between buffers, and tables of addresses",
    "in-place": "results that could be written over an operand",
    "copies": "copies that the program does not need",
    "materialisation": "arrays that each reader could compute again from next to nothing",
    UNKNOWN: "above the bound in every order that was tried; the bound may be too low",
}


@dataclass(frozen=True, slots=True)
class PlanReport(TextReport):
    """The memory report of a plan that was made elsewhere, and the plan taken apart."""

    memory: MemoryReport
    autopsy: Autopsy

    def in_all_frames(self) -> PlanReport:
        """Return the report with blame on the innermost calls, also where libraries have them."""
        return replace(self, memory=self.memory.in_all_frames())

    def __repr__(self) -> str:
        cause = self.autopsy.cause or "no better plan is known"
        return f"<PlanReport {self.memory!r}; cause: {cause}>"

    def __str__(self) -> str:
        from lowtide.autopsy.screen import autopsy_text
        from lowtide.report.drawing import visible

        return visible(autopsy_text(self))

    def to_json(self) -> Json:
        """Return the schema "lowtide.memory/1" with the section `autopsy`."""
        document = self.memory.to_json()
        return document | {"autopsy": self.autopsy.to_json()}
