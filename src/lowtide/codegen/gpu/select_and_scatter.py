"""Select-and-scatter: a thread for each window selects, then one for each element adds up.

The number of the position that a window selects goes to scratch. An element then adds up what the
windows that selected it have, in their order: nothing is written twice.
"""

from __future__ import annotations

from math import prod

from lowtide.codegen.elements.operands import bind
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.threads import thread_number
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.selection import SelectWriter, WindowSelection
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import ReduceWindow
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

_THREADS = 128
"""Threads of a block."""


def plan_gpu_select_and_scatter(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a select-and-scatter runs, for any computations and element types."""
    if instruction.opcode is not Opcode.SELECT_AND_SCATTER:
        return None
    if not instruction.shape.element_count:
        return GpuPlan("selections", lambda: GpuCode((), ()))
    scheme = _scheme(instruction)
    nbytes = rounded(4 * prod(scheme.places))
    return GpuPlan("selections", lambda: _code(instruction, target, scheme), nbytes)


def _scheme(instruction: Instruction) -> WindowSelection:
    operand, source = (x.shape.dimensions for x in instruction.operands[:2])
    windows = instruction.attributes_as(ReduceWindow).window.dimensions if operand else ()
    over = tuple(range(len(operand)))
    return WindowSelection(operand, source, windows, 0, over)


class _Writer(SelectWriter):
    """Keeps the numbers of all windows in one array in scratch."""

    def slot(self, at: dict[int, Affine]) -> str:
        """Return the address of the number of a window."""
        fn, total = self.elements.function, 0
        place: Integer = total
        for d, size in enumerate(self.scheme.places):
            place = fn.add(fn.mul(place, size), self.elements.indices.scalar(at[d]))
        return fn.gep("%scratch", place, "i32")


def _code(instruction: Instruction, target: Target, scheme: WindowSelection) -> GpuCode:
    functions, launches, texts = [], [], dict[str, None]()
    for name, sizes in (("select", scheme.places), ("scatter", scheme.sizes)):
        if 0 in sizes:
            continue
        fn = kernel_function(name, instruction, _THREADS)
        elements = thread_elements(fn, target, 0)
        bound = bind(fn, instruction, buffer_names(instruction))
        writer = _Writer(elements, instruction, scheme, bound)
        number = thread_number(fn, _THREADS, prod(sizes))
        with elements.scopes.when(fn.compare("slt", number, prod(sizes))):
            at = dict(enumerate(decomposed(elements, number, sizes)))
            if name == "select":
                writer.select(at, None)
            else:
                writer.scatter(at, None)
        functions.append(fn)
        launches.append(GridLaunch(name, -(-prod(sizes) // _THREADS), _THREADS))
        texts |= dict.fromkeys(elements.globals.values())
    return GpuCode(tuple(functions), tuple(launches), "\n".join(texts))
