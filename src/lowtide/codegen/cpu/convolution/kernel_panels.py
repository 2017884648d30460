"""Kernels of convolutions that lie in panels of columns, as sessions keep weights.

A panel has some neighbouring columns, which lie side by side for each contracted index. Tiles read
it from end to end where it lies: none is packed.
"""

from __future__ import annotations

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic
from lowtide.codegen.cpu.contraction.views import view_of
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class KernelPanels:
    """Where the elements of such a kernel lie in the array of `source`, from its start.

    A panel has `width` columns, and the next one begins `panel` elements behind it. `feature` and
    `spatial` are the distances of neighbours along input features and each axis of the window.
    """

    source: Instruction
    width: int
    panel: int
    feature: int
    spatial: tuple[int, ...]

    def column_offset(self, column: int) -> int:
        """Return how many elements a column lies behind the first one of its panel's tile."""
        return column // self.width * self.panel + column % self.width

    def column_place(self, fn: Function, column: Integer) -> Integer:
        """Write how many elements a column lies behind the first one."""
        whole = fn.mul(fn.div(column, self.width), self.panel)
        return fn.add(whole, fn.rem(column, self.width))

    def has_tiles(self, columns: int) -> bool:
        """Return whether tiles of so many columns read whole panels, or equal parts of one."""
        return columns % self.width == 0 or self.width % columns == 0


def kernel_panels(
    weights: Instruction, kernel: Instruction, problem: ConvolutionProblem, how: Arithmetic
) -> KernelPanels | None:
    """Return the panels in which the kernel of a fused convolution lies, None where in none.

    All panels are full, of elements that are multiplied as they are.
    """
    if kernel.opcode is not Opcode.FUSION or problem.groups > 1:
        return None
    is_plain = how.planes == how.group == 1 and weights.shape.element_type is how.element
    view = view_of(weights, kernel) if is_plain else None
    if view is None or view.offset:
        return None
    numbers = problem.numbers
    columns = view.runs((numbers.kernel_output_feature,))
    feature = view.single((numbers.kernel_input_feature,))
    spatial = [view.single((d,)) for d in numbers.kernel_spatial]
    known = tuple([x for x in spatial if x is not None])
    if len(columns) != 2 or columns[1].step != 1 or feature is None or len(known) < len(spatial):
        return None
    return KernelPanels(view.source, columns[1].size, columns[0].step, feature, known)
