"""A change of a program that might lower its peak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowtide.compiler import ModulePlan
from lowtide.ir import LowtideError, SourceLocation
from lowtide.whatif.baseline import Baseline


class ImpossibleChangeError(LowtideError):
    """A change that cannot be made in a program, with the reason."""


@dataclass(frozen=True, eq=False, slots=True)
class ProgramChange:
    """A change of a program, and how the program is planned after it.

    `name` is unique in a program; `what` says it in words, `code` is what to write at `source`, the
    line in the user's program, None where none is known. `plan` raises ImpossibleChangeError where
    the change cannot be made. The program runs `runs` times for the same work. `is_slow` says that
    the passes run again, `remark` what else the change does.
    """

    name: str
    what: str
    code: str
    source: SourceLocation | None
    plan: Callable[[Baseline], ModulePlan]
    runs: int = 1
    is_slow: bool = False
    remark: str = ""
