"""Heap simulation: offsets for buffers that come and go, from a list of events.

The algorithms are those of XLA's heap simulator, today's and those of TensorFlow 1.14. Each is a
function from events to a `HeapLayout`; `simulate` takes them by name.
"""

from lowtide.planning.heap.best_fit import (
    GapPlacer,
    Order,
    OrderKey,
    Placement,
    PlacingOrder,
    best_fit_heap,
    choose_best,
    packing_search,
    place_intervals,
)
from lowtide.planning.heap.combine import best_of, in_runs_of_decreasing_size, with_fallback
from lowtide.planning.heap.fast import fast_merge, fast_split
from lowtide.planning.heap.intervals import Interval, intervals
from lowtide.planning.heap.lazy import lazy_best_fit
from lowtide.planning.heap.simulate import ALGORITHMS, HeapBuffer, Simulation, simulate
from lowtide.planning.heap.slices import (
    PlacedSlice,
    SlicedBuffer,
    SliceOrders,
    find_sliced,
    place_sliced,
    put_sliced,
)
from lowtide.planning.heap.statistics import most_live_bytes, no_fragmentation_bytes
from lowtide.planning.heap.steps import (
    UNLIMITED,
    Chunk,
    Heap,
    HeapAlgorithm,
    HeapLayout,
    HeapStep,
    HeapStepKind,
    round_up,
)

__all__ = [
    "ALGORITHMS",
    "UNLIMITED",
    "Chunk",
    "GapPlacer",
    "Heap",
    "HeapAlgorithm",
    "HeapBuffer",
    "HeapLayout",
    "HeapStep",
    "HeapStepKind",
    "Interval",
    "Order",
    "OrderKey",
    "PlacedSlice",
    "Placement",
    "PlacingOrder",
    "Simulation",
    "SliceOrders",
    "SlicedBuffer",
    "best_fit_heap",
    "best_of",
    "choose_best",
    "fast_merge",
    "fast_split",
    "find_sliced",
    "in_runs_of_decreasing_size",
    "intervals",
    "lazy_best_fit",
    "most_live_bytes",
    "no_fragmentation_bytes",
    "packing_search",
    "place_intervals",
    "place_sliced",
    "put_sliced",
    "round_up",
    "simulate",
    "with_fallback",
]
