"""Functions that work on one matrix after the other of a batch: what their templates share."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.library.field import Parts, parts_of, value_of
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.ir import Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target


class BatchFunction:
    """The function of a phase over matrices; single elements are read and written by index."""

    def __init__(self, instruction: Instruction, target: Target, name: str) -> None:
        self.target = target
        self.function = Function(name, ARGUMENTS)
        self.elements = scalar_elements(self.function, target)
        bound = bind(self.function, instruction)
        self.results = bound.results
        self.operands = [bound.frame.arrays[x] for x in instruction.operands]

    def scratch(self, shared_bytes: int, thread_bytes: int) -> str:
        """Return the address of the scratch of this thread."""
        fn = self.function
        return fn.gep("%scratch", fn.add(fn.mul("%thread", thread_bytes), shared_bytes))

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
