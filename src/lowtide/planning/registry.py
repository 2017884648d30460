"""Strategies by name: those of lowtide, and those that other packages add by an entry point.

A package adds strategies by naming them in its metadata: the group `lowtide.offsets` or
`lowtide.objects`, the name of the strategy, and the `OffsetStrategy` or `ObjectStrategy` object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, TypeVar

from lowtide.planning.plans import ObjectsAssignment, Packing
from lowtide.planning.problem import PackingProblem, TensorUsageRecord
from lowtide.planning.search import SearchOptions

ReallocationGraph = Sequence[Sequence[int]]
"""Per tensor the tensors that may take over its object, sorted."""


@dataclass(frozen=True, slots=True)
class OffsetStrategy:
    """A way to give buffers offsets in an arena.

    `place` gets the problem and the limits of a search. `sentence` says in one line what it does,
    `source` where it comes from. What a problem may have beyond one stretch of time per buffer in
    one arena is said by `takes`, any of "alignment", "fixed", "gaps" and "regions".
    """

    name: str
    place: Callable[[PackingProblem, SearchOptions], Packing]
    sentence: str
    source: str
    takes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ObjectOptions:
    """What a strategy of shared objects may use beside the records."""

    reallocation_graph: ReallocationGraph | None = None
    search: SearchOptions = field(default_factory=SearchOptions)


@dataclass(frozen=True, slots=True)
class ObjectStrategy:
    """A way to let tensors share objects.

    `dimensions` are the numbers of extents that sizes may have, 1 for bytes. A strategy that is not
    `any_order` takes records in order of first task only; one with `reallocation` heeds the graph.
    """

    name: str
    share: Callable[[Sequence[TensorUsageRecord], ObjectOptions], ObjectsAssignment]
    sentence: str
    source: str
    dimensions: frozenset[int] = frozenset({1})
    any_order: bool = False
    reallocation: bool = False


_OFFSETS: Final = (
    "objects_in_sequence",
    "greedy_by_size",
    "first_fit",
    "best_fit",
    "skyline",
    "tflite_arena",
    "xla",
    "usmp",
    "portfolio",
    "exact",
)
"""The files of `offsets/`; each has a tuple `STRATEGIES`."""

_OBJECTS: Final = (
    "naive",
    "equality",
    "greedy_in_order",
    "greedy_by_breadth",
    "greedy_by_size",
    "greedy_best",
    "min_cost_flow",
    "exact",
)
"""The files of `objects/`; each has a tuple `STRATEGIES`."""

Strategy = TypeVar("Strategy", OffsetStrategy, ObjectStrategy)


@cache
def offset_strategies() -> Mapping[str, OffsetStrategy]:
    """Return the strategies for offsets by name; lowtide's own come first."""
    return _collect("offsets", _OFFSETS, OffsetStrategy)


@cache
def object_strategies() -> Mapping[str, ObjectStrategy]:
    """Return the strategies for shared objects by name; lowtide's own come first."""
    return _collect("objects", _OBJECTS, ObjectStrategy)


def _collect(kind: str, files: Sequence[str], of: type[Strategy]) -> Mapping[str, Strategy]:
    found: dict[str, Strategy] = {}
    for file in files:
        for strategy in import_module(f"lowtide.planning.{kind}.{file}").STRATEGIES:
            found[strategy.name] = strategy
    for point in sorted(entry_points(group=f"lowtide.{kind}")):
        strategy = point.load()
        if not isinstance(strategy, of):
            raise TypeError(f"entry point {point.name} of lowtide.{kind} is no {of.__name__}")
        if point.name in found:
            raise ValueError(f"entry point {point.name} of lowtide.{kind} has a name that is taken")
        found[point.name] = strategy
    return found


def nearest(name: str, known: Sequence[str], what: str) -> ValueError:
    """Return the error for a name that is not known: what is meant perhaps, and what there is."""
    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    stems = dict.fromkeys([x.partition("{")[0] + ("{NAME}" if "{" in x else "") for x in known])
    return ValueError(f"unknown {what} {name!r}; {hint}there are: {', '.join(stems)}")
