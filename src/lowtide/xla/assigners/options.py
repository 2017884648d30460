"""Options of XLA's assigners, and the values that may take over the place of an operand."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final, Protocol, final

from lowtide.ir import Instruction, LowtideError, Opcode, Shape, ShapeIndex
from lowtide.ops.in_place import Pair
from lowtide.ops.may_share import may_share
from lowtide.planning.heap.best_fit import PlacingOrder, best_fit_heap, choose_best
from lowtide.planning.heap.combine import best_of, in_runs_of_decreasing_size
from lowtide.planning.heap.fast import fast_merge, fast_split
from lowtide.planning.heap.lazy import lazy_best_fit
from lowtide.planning.heap.steps import HeapAlgorithm
from lowtide.records import dataclass
from lowtide.xla.analysis.hlo_value import HloPosition


class Demand(Protocol):
    """One demand for memory: an HloValue, or a LogicalBuffer."""

    @property
    def number(self) -> int:
        """What breaks ties."""

    @property
    def instruction(self) -> Instruction:
        """The instruction that makes the value."""

    @property
    def index(self) -> ShapeIndex:
        """The element of the instruction's result."""

    @property
    def shape(self) -> Shape:
        """The shape of that element."""

    @property
    def nbytes(self) -> int:
        """Bytes of the array, or of the table of a tuple."""

    @property
    def colour(self) -> int:
        """The memory space."""


class BufferOrder(StrEnum):
    """In which order buffers get allocations of their own, or those of other ones."""

    SIZE = "size"
    """Largest first, then those that live out, then in topological order."""
    TOPOLOGICAL = "topological"
    START = "start"
    """By the beginning of the live range, where there is a total order; else topological."""


ALGORITHMS: Final[Mapping[str, Callable[[int], HeapAlgorithm]]] = {
    "best-of-spatial-temporal": choose_best,
    "spatial": lambda limit: best_fit_heap(PlacingOrder.SPATIAL, limit),
    "temporal": lambda limit: best_fit_heap(PlacingOrder.TEMPORAL, limit),
    "fast-merge": fast_merge,
    "fast-split": fast_split,
    "lazy-best-fit": lambda _: lazy_best_fit,
    "best-of-runs-and-spatial": lambda limit: best_of(
        [in_runs_of_decreasing_size(lazy_best_fit), best_fit_heap(PlacingOrder.SPATIAL, limit)]
    ),
    "decreasing-size-runs": lambda _: in_runs_of_decreasing_size(lazy_best_fit),
}
"""Heap algorithms by name, each made for a limit in bytes, -1 for none."""


def algorithm_named(name: str, limit: int) -> HeapAlgorithm:
    """Return a heap algorithm; raises LowtideError for an unknown name."""
    make = ALGORITHMS.get(name)
    if make is None:
        raise LowtideError(f"no heap algorithm {name!r}; there are: {', '.join(ALGORITHMS)}")
    return make(limit)


@dataclass(frozen=True, slots=True)
class Preset:
    """The place that is given for the value at `index` of an instruction, in its memory space."""

    instruction: Instruction
    index: ShapeIndex
    offset: int


def _layout_colour(value: Demand) -> int:
    return value.colour


def _cache_line(_: int) -> int:
    return 64


def _same_colour(value: int, allocation: int) -> bool:
    return value == allocation


def _anything(_: Instruction, __: ShapeIndex) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AssignerOptions:
    """The choices; the defaults are those of XLA:CPU.

    `alignment` gives, by colour, what all offsets are a multiple of, in bytes. `colorer` gives the
    colour of a value, `can_use_allocation` whether a value of one colour may lie in an allocation
    of another one. With `tables`, tables of addresses of tuples take memory. Values for which
    `must_not_live_out` holds never lie where outputs do. `memory_limit` bounds, per colour, one
    heap: what does not fit goes to another one. `whole_module` lets loop bodies lie in the heap of
    the module where all computations have a total order; else each computation has its own.
    `reuse_colocated` lets other buffers of TensorFlow 1.14's assigner lie where colocated sets do.
    """

    alignment: Callable[[int], int] = _cache_line
    colorer: Callable[[Demand], int] = _layout_colour
    can_use_allocation: Callable[[int, int], bool] = _same_colour
    must_not_live_out: Callable[[Instruction, ShapeIndex], bool] = _anything
    tables: bool = True
    allocate_constants: bool = True
    presets: Sequence[Preset] = ()
    buffer_order: BufferOrder = BufferOrder.SIZE
    algorithm: str = "best-of-spatial-temporal"
    memory_limit: Mapping[int, int] = field(default_factory=dict)
    whole_module: bool = True
    reuse_colocated: bool = True


@final
class OperandSharing:
    """What `ops.in_place.may_share` says; it does not change once said, so it is kept."""

    def __init__(self) -> None:
        self._pairs: dict[Instruction, tuple[Pair, ...]] = {}

    def may_take_over(self, taker: Demand, giver: Container[HloPosition]) -> bool:
        """Whether a value may lie over an operand of its instruction that is read there last.

        `giver` are the positions at which the operand's value is. A copy never does.
        """
        instruction = taker.instruction
        if instruction.opcode is Opcode.COPY:
            return False
        pairs = self._pairs.get(instruction)
        if pairs is None:
            pairs = self._pairs[instruction] = may_share(instruction)
        operands = instruction.operands
        return any(
            output == taker.index and HloPosition(operands[operand], index) in giver
            for (operand, index), output in pairs
        )
