"""The form of a scatter, in numbers: the start of each window, and the ranges of its loops."""

from __future__ import annotations

from functools import cached_property

from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.value import Value
from lowtide.ir import Computation, Instruction, Shape
from lowtide.ir.attributes import Scatter
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False)
class ScatterForm:
    """A scatter of any dimension numbers, of one array or of several alike.

    Updates have batch dimensions, which number the windows in row-major order, and window
    dimensions. `starts` pairs each dimension of the input that index vectors address with the
    place of its number within a vector; `batching` pairs others with the batch dimension that
    they follow. `window` pairs dimensions of the input with those of the updates that run along.
    """

    scatter: Instruction

    @cached_property
    def count(self) -> int:
        """The number of arrays."""
        return len(self.scatter.operands) // 2

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        """The arrays before."""
        return tuple(self.scatter.operands[: self.count])

    @property
    def results(self) -> list[Shape]:
        """The shapes of the arrays after; they may lie unlike those before."""
        return leaves(self.scatter.shape)

    @property
    def indices(self) -> Instruction:
        """The index vectors."""
        return self.scatter.operands[self.count]

    @property
    def updates(self) -> tuple[Instruction, ...]:
        """What is combined into each array."""
        return tuple(self.scatter.operands[self.count + 1 :])

    @property
    def numbers(self) -> Scatter:
        """The dimension numbers."""
        return self.scatter.attributes_as(Scatter)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions of the input."""
        return self.inputs[0].shape.dimensions

    @cached_property
    def update_sizes(self) -> tuple[int, ...]:
        """The dimensions of the updates."""
        return self.updates[0].shape.dimensions

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """The dimensions of the updates which number the windows."""
        windows = self.numbers.update_window_dims
        return tuple([d for d in range(len(self.update_sizes)) if d not in windows])

    @cached_property
    def starts(self) -> tuple[tuple[int, int], ...]:
        """Pairs of an input dimension and the number within an index vector."""
        return tuple([(d, i) for i, d in enumerate(self.numbers.scatter_dims_to_operand_dims)])

    @cached_property
    def batching(self) -> tuple[tuple[int, int], ...]:
        """Pairs of an input dimension and the position in `batch` that is the index there."""
        numbers = self.numbers
        pairs = zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
        vector = numbers.index_vector_dim
        return tuple([(d, source - (source > vector)) for d, source in pairs])

    @cached_property
    def window(self) -> tuple[tuple[int, int], ...]:
        """Pairs of an input dimension and the dimension of the updates along it."""
        hidden = {*self.numbers.inserted_window_dims, *self.numbers.input_batching_dims}
        shown = [d for d in range(len(self.sizes)) if d not in hidden]
        return tuple(zip(shown, self.numbers.update_window_dims, strict=True))

    def window_size(self, dimension: int) -> int:
        """Return the extent of windows along a dimension of the input."""
        return {d: self.update_sizes[u] for d, u in self.window}.get(dimension, 1)

    @cached_property
    def line(self) -> int | None:
        """The dimension along which windows of each result lie in consecutive elements."""
        steps = [strides(x) for x in self.results]
        for d, u in self.window:
            if self.update_sizes[u] > 1 and all(x[d] == 1 for x in steps):
                return d
        return None

    @cached_property
    def row(self) -> int | None:
        """The longest dimension of the input of which each window takes one element by index."""
        found = [d for d, _ in self.starts if self.window_size(d) == 1]
        return max(found, key=lambda d: self.sizes[d], default=None)

    def vector_place(self, batch: tuple[object, ...], number: object) -> tuple[object, ...]:
        """Return where a number of the index vector of a window lies, given as any objects."""
        vector = self.numbers.index_vector_dim
        if vector == self.indices.shape.rank:
            return batch
        return (*batch[:vector], number, *batch[vector:])


def combine_reads(combine: Computation) -> frozenset[int]:
    """Return which of the old values, by number, a computation uses."""
    half = len(combine.parameters) // 2
    olds = enumerate(combine.parameters[:half])
    return frozenset([i for i, x in olds if x.users or x is combine.root])


def as_index(fn: Function, value: Value) -> Integer:
    """Return an integer as an i64: a negative one becomes larger than any size."""
    if not value.name.startswith("%"):
        return int(value.name)
    bits = max(8, value.type.bits)
    if bits == 64:
        return value.name
    how = "sext" if value.type.is_signed else "zext"
    return fn.op(f"{how} i{bits} {value.name} to i64")
