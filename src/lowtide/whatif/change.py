"""A change of a program that might lower its peak."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from lowtide.compiler import ModulePlan
from lowtide.ir import LowtideError, SourceLocation
from lowtide.records import dataclass
from lowtide.whatif.baseline import Baseline

LEAST_SHARE: Final = 200
"""A change pays where it saves one part in so many of the peak, unless its figures are rough."""


class Weight(IntEnum):
    """The work of planning a change, in orders of a program of the same size."""

    ORDER = 1
    """The kernels stay; their order and places are found anew."""
    PASSES = 8
    """The passes run again."""
    BUDGET = 24
    """Several programs that run parts again are planned."""


class ImpossibleChangeError(LowtideError):
    """A change that cannot be made in a program, with the reason."""


@dataclass(frozen=True, eq=False, slots=True)
class ProgramChange:
    """A change of a program, and how the program is planned after it.

    `name` is unique in a program; `what` says it in words, `code` is what to write at `source`, the
    line in the user's program, None where none is known. `plan` raises ImpossibleChangeError where
    the change cannot be made. The program runs `runs` times for the same work. `weight` is the work
    of planning it, `remark` what else the change does. `estimate` is what the peak falls by, in
    bytes, where that can be told without a plan.

    With `is_about` the kernels of `plan` are not those of the program once it is written so; where
    there is `written`, it plans that one, from the module as it was given, as new passes make it;
    with `is_written_about` JAX may make another program of the changed source.
    It pays where it saves one part in `least_share` of the peak: more where figures are rough.
    """

    name: str
    what: str
    code: str
    source: SourceLocation | None
    plan: Callable[[Baseline], ModulePlan]
    runs: int = 1
    weight: Weight = Weight.ORDER
    remark: str = ""
    estimate: int | None = None
    is_about: bool = True
    written: Callable[[Baseline], ModulePlan] | None = None
    is_written_about: bool = False
    least_share: int = LEAST_SHARE
