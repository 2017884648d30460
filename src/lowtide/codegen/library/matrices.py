"""Functions that work on one matrix after the other of a batch: what their templates share."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.library.field import Parts, parts_of, value_of
from lowtide.ir import Instruction
from lowtide.llvm.function import Integer


class BatchFunction:
    """A function over matrices; single elements are read and written by index."""

    def __init__(
        self, instruction: Instruction, elements: Elements, pointers: Sequence[str] = ()
    ) -> None:
        bound = bind(elements.function, instruction, pointers)
        self.function = elements.function
        self.target = elements.target
        self.elements = elements
        self.results = bound.results
        self.operands = [bound.frame.arrays[x] for x in instruction.operands]

    def place(self, batch: Sequence[Affine], array: Array, at: Sequence[Integer]) -> Index:
        """Return the index of an element, given by the numbers that follow those of the batch."""
        sizes = array.shape.dimensions[len(batch) :]
        found = [self.elements.indices.variable(x, n) for x, n in zip(at, sizes, strict=True)]
        return (*batch, *found)

    def read(self, batch: Sequence[Affine], array: Array, *at: Integer) -> Parts:
        """Return an element of the matrix of a batch index."""
        index = self.place(batch, array, at)
        pointer = self.elements.address(array, offset(array.shape, index))
        value = memory.load(self.function, self.target, array.shape.element_type, pointer, 0)
        return parts_of(self.function, self.target, value)

    def write(self, batch: Sequence[Affine], array: Array, value: Parts, *at: Integer) -> None:
        """Store an element of the matrix of a batch index."""
        index = self.place(batch, array, at)
        pointer = self.elements.address(array, offset(array.shape, index))
        stored = value_of(value, array.shape.element_type)
        memory.store(self.function, self.target, stored, pointer)
