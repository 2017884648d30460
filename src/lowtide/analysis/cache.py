"""Keep the results of analyses for as long as what they looked at does not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast, final

from lowtide.ir import Computation, Instruction, Module

T = TypeVar("T")
S = TypeVar("S", Computation, Module)


class StaleAnalysisError(AssertionError):
    """A module was changed past the doors, so that a result that is kept no longer holds."""


@final
class AnalysisCache:
    """Results of analyses, which are pure functions to immutable results.

    The result for a computation holds while its `version` is what it was; an analysis of a
    computation must not look into those that it calls. The result for a module holds while it has
    the same computations in the same versions, the same entry, schedule, aliases and donors. So
    nobody declares which analyses a pass preserves, and a stale result cannot be read.

    An analysis is told from others by equality: give one with options as a frozen dataclass with
    `__call__`. With `check` each hit compares all instructions with what they were, which is slow,
    and raises StaleAnalysisError where a change did not raise the version.
    """

    def __init__(self, *, check: bool = False) -> None:
        self._check = check
        self._results: dict[tuple[object, object], tuple[object, object]] = {}
        self._contents: dict[tuple[object, object], list[tuple[object, ...]]] = {}

    def get(self, analysis: Callable[[S], T], subject: S) -> T:
        """Return `analysis(subject)`, run only where the subject changed since the last time."""
        key = (analysis, subject)
        state = _state(subject)
        found = self._results.get(key)
        if found is not None and found[0] == state:
            if self._check and self._contents[key] != _content(subject):
                raise StaleAnalysisError(f"{subject!r} changed, but its version did not")
            return cast(T, found[1])
        result = analysis(subject)
        self._results[key] = (state, result)
        if self._check:
            self._contents[key] = _content(subject)
        return result

    def forget(self, subject: Computation | Module) -> None:
        """Drop the results for one computation or module, e.g. when it is removed."""
        for key in [key for key in self._results if key[1] is subject]:
            del self._results[key]
            self._contents.pop(key, None)


def _state(subject: Computation | Module) -> object:
    """Return a value that differs after each change; objects compare by identity."""
    if isinstance(subject, Computation):
        return subject.version
    return (
        [(computation, computation.version) for computation in subject.computations.values()],
        subject.entry if subject.has_entry else None,
        _Same(subject.schedule),
        subject.input_output_aliases,
        subject.buffer_donors,
    )


@final
class _Same:
    """Equal only to a wrapper of the same object: schedules are too large to compare."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _content(subject: Computation | Module) -> list[tuple[object, ...]]:
    """Return all that an analysis can see, but for metadata, in a form that compares by value."""
    if isinstance(subject, Computation):
        return [
            *map(_row, subject.instructions.values()),
            (subject.root if subject.has_root else None,),
        ]
    return [row for c in subject.computations.values() for row in _content(c)]


def _row(x: Instruction) -> tuple[object, ...]:
    control = tuple(x.control_predecessors)
    return (
        *(x, x.opcode, x.shape, x.operands, x.attributes),
        *(x.called_computations, control, x.annotations),
    )
