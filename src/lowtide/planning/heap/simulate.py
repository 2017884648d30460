"""Heap simulation by names: events as data, an algorithm by its name, offsets by buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lowtide.planning.heap.best_fit import (
    Order,
    PlacingOrder,
    best_fit_heap,
    choose_best,
    first_step,
    last_step,
    packing_search,
)
from lowtide.planning.heap.combine import in_runs_of_decreasing_size, with_fallback
from lowtide.planning.heap.fast import fast_merge, fast_split
from lowtide.planning.heap.intervals import Interval
from lowtide.planning.heap.lazy import lazy_best_fit
from lowtide.planning.heap.statistics import most_live_bytes, no_fragmentation_bytes
from lowtide.planning.heap.steps import UNLIMITED, HeapAlgorithm, HeapLayout, HeapStep, HeapStepKind
from lowtide.records import dataclass
from lowtide.suggestions import nearest_name

Event = Sequence[Any]
"""["A", buffer, bytes], ["F", buffer, bytes] or ["S", buffer, the one it shares with, bytes]."""


class HeapBuffer(NamedTuple):
    """The argument of a key for a custom order: a buffer with a place of its own.

    `first` and `last` are its steps, `group_first` and `group_last` those of all in the place, of
    which `group_size` is the largest size in bytes.
    """

    name: str
    size: int
    first: int
    last: int
    group_first: int
    group_last: int
    group_size: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """Offsets and sizes of places by buffer, in bytes, and which buffers lie in which heap.

    An offset is one in the heap of the buffer. `heap_size` is that of all heaps together, and
    `most_live` what no layout can do without.
    """

    heap_size: int
    offsets: dict[str, int]
    sizes: dict[str, int]
    heaps: list[list[str]]
    most_live: int

    @property
    def num_heaps(self) -> int:
        """How many heaps there are."""
        return len(self.heaps)

    @property
    def fragmentation(self) -> int:
        """Bytes that the heaps need beyond what is live at once."""
        return self.heap_size - self.most_live


STATISTICS: Final = ("no_fragmentation", "xla_no_fragmentation")
"""Names that lay out nothing: the size of the heap is the most that is live at once."""

_CUSTOM: Final = ("xla_custom", "kCustom")

_ALGORITHMS: Final[Mapping[str, Callable[[int], HeapAlgorithm]]] = {
    "xla_choose_best": choose_best,
    "xla_spatial": lambda limit: best_fit_heap(PlacingOrder.SPATIAL, limit),
    "xla_temporal": lambda limit: best_fit_heap(PlacingOrder.TEMPORAL, limit),
    "xla_spatial_temporal": lambda limit: best_fit_heap(PlacingOrder.SPATIAL_TEMPORAL, limit),
    "xla_phase_window": lambda limit: best_fit_heap(PlacingOrder.PHASE, limit),
    "xla_phase_window_end": lambda limit: best_fit_heap(PlacingOrder.PHASE_END, limit),
    "xla_fast_merge": fast_merge,
    "xla_fast_split": fast_split,
}
"""Algorithms that heed a limit."""

_ENDLESS: Final[Mapping[str, HeapAlgorithm]] = {
    "xla_packing_search": packing_search(),
    "lazy_best_fit": lazy_best_fit,
    "decreasing_size_runs": in_runs_of_decreasing_size(lazy_best_fit),
}
"""Algorithms that know no limit."""

_ALIASES: Final = {
    "global_decreasing": "xla_spatial",
    "constrained": "xla_spatial",
    "choose_best": "xla_choose_best",
    "kSpatial": "xla_spatial",
    "kTemporal": "xla_temporal",
    "kSpatialTemporal": "xla_spatial_temporal",
    "kPhaseWindow": "xla_phase_window",
    "kPhaseWindowEnd": "xla_phase_window_end",
    "kFastMerge": "xla_fast_merge",
    "kFastSplit": "xla_fast_split",
}
"""What XLA calls them."""

ALGORITHMS: Final = (*_ALGORITHMS, *_ENDLESS, _CUSTOM[0], STATISTICS[0])
"""The names of all algorithms."""


def simulate(
    events: Sequence[Event],
    algorithm: str = "xla_choose_best",
    *,
    alignment: int = 1,
    align: int | None = None,
    limit: int | None = None,
    strategy: str | None = None,
    order: Callable[[HeapBuffer], Any] | Sequence[str] | None = None,
    fallback: str | None = None,
) -> Simulation:
    """Return offsets for buffers from the list of their beginnings and ends.

    `algorithm` is one of `ALGORITHMS`, or XLA's name of it; `strategy` and `align` are other words
    for it and for `alignment`. Ties are broken by the order in which buffers come. With a `limit`
    in bytes, what exceeds it goes to further heaps, or, with a `fallback`, all is laid out anew by
    that algorithm. `order` is that of "xla_custom": a key of buffers, or a list of those which have
    a place of their own. Raises ValueError for an unknown algorithm, for options that it lacks, and
    for an event that cannot be, with the number of the event, from 0.
    """
    names, steps = _steps(events)
    alignment = alignment if align is None else align
    if alignment <= 0 or (limit is not None and limit < 0):
        raise ValueError(f"alignment {alignment} is not above 0, or limit {limit} is below 0")
    live = most_live_bytes(steps)
    name = strategy or algorithm
    if name in STATISTICS:
        return Simulation(no_fragmentation_bytes(steps), {}, {}, [], live)
    bound = UNLIMITED if limit is None else limit
    if fallback is not None:
        first = _algorithm(name, UNLIMITED, order, names)
        second = _algorithm(fallback, UNLIMITED, order, names)
        run = with_fallback(first, second, bound) if limit is not None else first
    else:
        run = _algorithm(name, bound, order, names)
    return _named(run(steps, alignment), names, live)


def _steps(events: Sequence[Event]) -> tuple[list[str], list[HeapStep]]:
    """The names of buffers in order of appearance, and the events with numbers for names."""
    numbers: dict[str, int] = {}
    steps: list[HeapStep] = []
    born: dict[int, int] = {}
    died: dict[int, int] = {}
    for place, event in enumerate(events):
        if not isinstance(event, Sequence):
            raise ValueError(f"event {place} is {event!r}, expected a list")
        try:
            step = _step(event, numbers)
            _check(step, event, born, died)
        except ValueError as error:
            raise ValueError(f"event {place}, {list(event)}: {error}") from None
        (died if step.kind is HeapStepKind.FREE else born)[step.buffer] = step.nbytes
        steps.append(step)
    return list(numbers), steps


_KINDS: Final = {"A": HeapStepKind.ALLOCATE, "F": HeapStepKind.FREE, "S": HeapStepKind.SHARE}


def _step(event: Event, numbers: dict[str, int]) -> HeapStep:
    kind = _KINDS.get(str(event[0])) if event else None
    if kind is None:
        raise ValueError("expected A, F or S first")
    count = 4 if kind is HeapStepKind.SHARE else 3
    if len(event) != count or not all(isinstance(x, str) for x in event[:-1]):
        raise ValueError(f"expected {count} fields: {_FIELDS[kind]}")
    nbytes = event[-1]
    if not isinstance(nbytes, int) or isinstance(nbytes, bool) or nbytes < 0:
        raise ValueError(f"expected a number of bytes, not {nbytes!r}")
    others = [numbers.get(x, -2) for x in event[2:-1]]
    return HeapStep(kind, numbers.setdefault(event[1], len(numbers)), nbytes, *others)


_FIELDS: Final = {
    HeapStepKind.ALLOCATE: "A, buffer, bytes",
    HeapStepKind.FREE: "F, buffer, bytes",
    HeapStepKind.SHARE: "S, buffer, the one it shares with, bytes",
}


def _check(step: HeapStep, event: Event, born: Mapping[int, int], died: Mapping[int, int]) -> None:
    here, size = step.buffer in born, born.get(step.buffer)
    if step.kind is HeapStepKind.FREE and (not here or step.buffer in died):
        raise ValueError(f"{event[1]} is freed but not allocated")
    if step.kind is HeapStepKind.FREE and step.nbytes != size:
        raise ValueError(f"{event[1]} has {size} bytes")
    if step.kind is not HeapStepKind.FREE and here:
        raise ValueError(f"{event[1]} is allocated twice")
    if step.kind is HeapStepKind.SHARE and step.shares_with not in born:
        raise ValueError(f"{event[1]} shares with {event[2]}, which is not there")
    if step.kind is HeapStepKind.SHARE and step.nbytes and not born[step.shares_with]:
        raise ValueError(f"{event[1]} shares with {event[2]}, which has no bytes")


def _algorithm(
    name: str,
    limit: int,
    order: Callable[[HeapBuffer], Any] | Sequence[str] | None,
    names: Sequence[str],
) -> HeapAlgorithm:
    name = _ALIASES.get(name, name)
    if (name in _CUSTOM) != (order is not None):
        raise ValueError(f"an order goes with {_CUSTOM[0]}, and with no other algorithm")
    if order is not None:
        return best_fit_heap(_numbered(order, names), limit)
    if name in _ENDLESS:
        if limit != UNLIMITED:
            raise ValueError(f"{name} knows no limit; {', '.join(_ALGORITHMS)} do")
        return _ENDLESS[name]
    if name not in _ALGORITHMS:
        known = [*ALGORITHMS, *_ALIASES]
        close = nearest_name(name, known)
        hint = f"did you mean {close!r}? " if close else ""
        raise ValueError(f"no heap algorithm {name!r}; {hint}there are: {', '.join(ALGORITHMS)}")
    return _ALGORITHMS[name](limit)


def _numbered(order: Callable[[HeapBuffer], Any] | Sequence[str], names: Sequence[str]) -> Order:
    """The order by numbers of buffers in place of names."""
    if callable(order):
        key = order
        return lambda members: key(_buffer(members, names))
    numbers = {name: number for number, name in enumerate(names)}
    unknown = [name for name in order if name not in numbers]
    if unknown:
        raise ValueError(f"the order has {unknown[0]!r}, which is no buffer")
    return [numbers[name] for name in order]


def _buffer(members: Sequence[Interval], names: Sequence[str]) -> HeapBuffer:
    first = members[0]
    steps = first_step(members), last_step(members), max([x.nbytes for x in members])
    return HeapBuffer(names[first.buffer], first.nbytes, first.first, first.last, *steps)


def _named(layout: HeapLayout, names: Sequence[str], live: int) -> Simulation:
    chunks = [(names[x], chunk) for heap in layout.heaps for x, chunk in heap.chunks.items()]
    return Simulation(
        layout.nbytes,
        {name: chunk.offset for name, chunk in chunks},
        {name: chunk.nbytes for name, chunk in chunks},
        [sorted([names[x] for x in heap.chunks]) for heap in layout.heaps],
        live,
    )
