"""Kernels in which a block works on a matrix of a batch: what their templates share."""

from __future__ import annotations

from lowtide.codegen.cpu.library.matrices import BatchFunction
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.gpu.kernel import buffer_names, kernel_function
from lowtide.codegen.gpu.threads import thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.ir import Instruction
from lowtide.llvm.target import Target


class BlockFunction(BatchFunction):
    """The kernel of an instruction in which blocks of `threads` threads work on matrices."""

    def __init__(self, instruction: Instruction, target: Target, name: str, threads: int) -> None:
        self.target = target
        self.threads = threads
        self.function = kernel_function(name, instruction, threads)
        self.elements = thread_elements(self.function, target, 0)
        bound = bind(self.function, instruction, buffer_names(instruction))
        self.results = bound.results
        self.operands = [bound.frame.arrays[x] for x in instruction.operands]
        self.thread = thread_in_block(self.function)
