"""All strategies on one packing problem, side by side."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from types import FrameType
from typing import Final

from lowtide.ir import LowtideError
from lowtide.packing.check import MOST_CHECKED, check
from lowtide.packing.named import NamedProblem, SolvedPacking, solve
from lowtide.planning import SearchOptions, StopReason, object_strategies, offset_strategies
from lowtide.records import dataclass

SECONDS_EACH: Final = 10.0
"""How long each strategy may take where nothing else is said."""

_GRACE: Final = 1.0
"""Seconds after its deadline at which a strategy that does not heed it is ended."""

_LAID_OUT: Final = "objects_in_sequence{"
"""Strategies of offsets so named are those of objects, which stand in the table by themselves."""


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """What one strategy came to: bytes, seconds, and what of the problem it does not know.

    `nbytes` is None where there is no plan, and `fault` says why.
    """

    kind: str
    strategy: str
    nbytes: int | None
    seconds: float
    changes: tuple[str, ...] = ()
    stopped: StopReason = StopReason.DONE
    fault: str = ""


class _Overtime(Exception):  # noqa: N818  # a signal, no error
    """A strategy took too long."""


def compare(
    named: NamedProblem, search: SearchOptions, seconds: float = SECONDS_EACH
) -> Iterator[tuple[StrategyResult, SolvedPacking | None]]:
    """Yield what each strategy comes to, those of offsets first, and its plan.

    Each has so many seconds for itself, and the effort of `search`. Raises WrongPackingError for a
    wrong plan.
    """
    limits = replace(search, deadline=seconds, capacity=None)
    for kind, names in (("offsets", offset_strategies()), ("objects", object_strategies())):
        for name in names:
            if not name.startswith(_LAID_OUT):
                yield _compared(named, kind, name, limits, seconds)


def _compared(
    named: NamedProblem, kind: str, name: str, search: SearchOptions, seconds: float
) -> tuple[StrategyResult, SolvedPacking | None]:
    start = perf_counter()
    try:
        with _at_most(seconds + _GRACE):
            found = solve(named.problem, f"{kind}:{name}", search)
    except LowtideError as error:
        fault = str(error).removeprefix(f"{kind}:").removeprefix(name).strip(" :")
        return StrategyResult(kind, name, None, perf_counter() - start, fault=fault), None
    except _Overtime:
        fault = f"no plan in {seconds:g} s"
        return StrategyResult(kind, name, None, perf_counter() - start, fault=fault), None
    if len(named.problem) <= MOST_CHECKED:
        check(named, found)
    row = StrategyResult(kind, name, found.height, found.seconds, found.changes, found.stopped)
    return row, found


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise _Overtime in the block once it takes longer, where the system has an alarm clock."""
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Overtime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
