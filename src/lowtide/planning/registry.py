"""Strategies by name: those of lowtide, and those that other packages add by an entry point.

A package adds strategies by naming them in its metadata: the group `lowtide.offsets` or
`lowtide.objects`, the name of the strategy, and the `OffsetStrategy` or `ObjectStrategy` object.
One that cannot be loaded, or has a name that is taken, raises ValueError once it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from lowtide.planning.plans import ObjectsAssignment, Packing
from lowtide.planning.problem import PackingProblem, TensorUsageRecord
from lowtide.records import dataclass
from lowtide.search.effort import SearchOptions
from lowtide.suggestions import nearest_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    """Options that a strategy of shared objects may use beside the records."""

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
    "equality",
    "greedy_in_order",
    "greedy_by_breadth",
    "greedy_by_size",
    "min_cost_flow",
    "exact",
)
"""The files of `objects/`; each has a tuple `STRATEGIES`."""

Strategy = TypeVar("Strategy", OffsetStrategy, ObjectStrategy)

_ALL_FEATURES: Final[Mapping[type, Mapping[str, object]]] = {
    OffsetStrategy: {"takes": frozenset({"alignment", "fixed", "gaps", "regions"})},
    ObjectStrategy: {
        "dimensions": frozenset({1, 2, 3, 4}),
        "any_order": True,
        "reallocation": True,
    },
}
"""What a strategy takes that takes all: nothing is wrong with what one asks of it."""


@cache
def offset_strategies() -> Mapping[str, OffsetStrategy]:
    """Return the strategies for offsets by name; lowtide's own come first."""
    return _collect("offsets", _OFFSETS, OffsetStrategy)


@cache
def object_strategies() -> Mapping[str, ObjectStrategy]:
    """Return the strategies for shared objects by name; lowtide's own come first."""
    return _collect("objects", _OBJECTS, ObjectStrategy)


def offset_strategy(name: str) -> OffsetStrategy:
    """Return a strategy by its name, `objects_in_sequence{NAME}` included.

    One that has the name of its file is found without the others, which take a while to load.
    Raises ValueError for an unknown name.
    """
    if name in _OFFSETS:
        strategies: Sequence[OffsetStrategy]
        strategies = import_module(f"lowtide.planning.offsets.{name}").STRATEGIES
        for strategy in strategies:
            if strategy.name == name:
                return strategy
    known = offset_strategies()
    if name not in known:
        raise nearest(name, list(known), "strategy for offsets")
    return known[name]


def _collect(kind: str, files: Sequence[str], of: type[Strategy]) -> Mapping[str, Strategy]:
    from importlib.metadata import entry_points  # It is slow to load, and few need all strategies.

    found: dict[str, Strategy] = {}
    for file in files:
        for strategy in import_module(f"lowtide.planning.{kind}.{file}").STRATEGIES:
            found[strategy.name] = strategy
    for point in sorted(entry_points(group=f"lowtide.{kind}")):
        name = point.name
        if name in found:
            package = point.dist.name if point.dist is not None else point.value
            name = f"{name} of {package}"
        found[name] = replace(_loaded(point, of, name != point.name), name=name)
    return found


def _loaded(point: EntryPoint, of: type[Strategy], taken: bool) -> Strategy:
    """The strategy of another package, or one that says why there is none as soon as it is used."""
    try:
        if taken:
            raise ValueError(f"there is a strategy {point.name} already")
        strategy = point.load()
        if isinstance(strategy, of):
            return strategy
        reason = f"{point.value} is no {of.__name__}"
    except Exception as error:  # whatever importing a package may raise
        reason = f"{type(error).__name__}: {error}"
    reason = f"entry point {point.name} of {point.group} cannot be used: {reason}"

    def refuse(*_: object) -> NoReturn:
        raise ValueError(reason)

    features: Any = _ALL_FEATURES[of]
    return of(point.name, refuse, reason, point.value, **features)


def nearest(name: str, known: Sequence[str], what: str) -> ValueError:
    """Return the error for a name that is not known: what is meant perhaps, and what there is."""
    close = nearest_name(name, known)
    hint = f"did you mean {close!r}? " if close else ""
    stems = dict.fromkeys([x.partition("{")[0] + ("{NAME}" if "{" in x else "") for x in known])
    return ValueError(f"unknown {what} {name!r}; {hint}there are: {', '.join(stems)}")
