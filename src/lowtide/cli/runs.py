"""Results and times of one engine of `lowtide run`, and the text about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.outputs import Output
    from lowtide.ir import Module


@dataclass(frozen=True, slots=True)
class Runs:
    """The result of runs, the wall seconds of each, and of the first one where it stands apart.

    `how` says what ran, `remarks` are further lines below that, `tables` stand below the results.
    `document` goes into the JSON document.
    """

    engine: str
    result: Any
    seconds: Sequence[float]
    how: str
    first_seconds: float | None = None
    remarks: Sequence[str] = ()
    tables: Sequence[str] = ()
    document: dict[str, object] = field(default_factory=dict)


def timed(call: Callable[[], Any], repeat: int) -> tuple[Any, float, list[float]]:
    """Return the first result of a call, its seconds, and those of `repeat` further calls.

    Where `repeat` is 1 there is no further call: its time is that of the first one.
    """
    start = perf_counter()
    result = call()
    first = perf_counter() - start
    if repeat == 1:
        return result, first, [first]
    seconds = []
    for _ in range(repeat):
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return result, first, seconds


def results_of(module: Module, result: Any) -> list[Output]:
    """Return the arrays of a result, depth first, with their shapes."""
    from lowtide.cli.outputs import Output
    from lowtide.evaluator import Token, value_leaves

    leaves = module.entry.root.shape.leaves()
    found: list[Output] = []
    for (index, shape), value in zip(leaves, value_leaves(result), strict=True):
        if value is not None and not isinstance(value, Token):
            found.append(Output(index, shape, value))
    return found


def time_text(seconds: Sequence[float], first: float | None = None) -> str:
    """Return the time of one run, or median and spread of several."""
    if len(seconds) == 1:
        return duration(seconds[0])
    spread = f"{duration(min(seconds))} to {duration(max(seconds))}"
    apart = "" if first is None else f", first {duration(first)}"
    return f"{duration(median(seconds))} (median of {len(seconds)}, {spread}{apart})"


def duration(seconds: float) -> str:
    """Return a time with its unit: s, ms or us."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
