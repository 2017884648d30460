"""Operands of a dot as they lie in memory: a parameter seen through what only moves elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.geometry import StridedRun, runs
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions, Parameter, Slice
from lowtide.records import dataclass

Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Elements of the array of `source`, from `offset` on; `steps` apart along each dimension."""

    source: Instruction
    offset: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    def runs(self, dimensions: tuple[int, ...]) -> tuple[StridedRun, ...]:
        """Return how the elements along some dimensions lie."""
        sizes = tuple([self.sizes[d] for d in dimensions])
        return runs(sizes, tuple([self.steps[d] for d in dimensions]))

    def single(self, dimensions: tuple[int, ...]) -> int | None:
        """Return the distance of neighbours along dimensions, None where there are several.

        It is 1 along a single element.
        """
        found = self.runs(dimensions)
        if len(found) > 1:
            return None
        return found[0].step if found else 1


def view_of(instruction: Instruction, kernel: Instruction) -> View | None:
    """Return how the elements of an instruction lie in an array that it does nothing but index.

    The array is a parameter of the fusion that runs, `kernel`. It lies as the operand of the fusion
    says, which may be in another way than the parameter says.
    """
    steps: list[Instruction] = []
    source = instruction
    while source.opcode in _RULES:
        steps.append(source)
        source = source.operands[0]
    if source.opcode is not Opcode.PARAMETER:
        return None
    operand = kernel.operands[source.attributes_as(Parameter).number]
    view: View | None = View(source, 0, source.shape.dimensions, strides(operand.shape))
    for step in reversed(steps):
        if view is None:
            return None
        view = _RULES[step.opcode](view, step)
    return view


def whole(source: Instruction) -> View:
    """Return the view of all of an array."""
    return View(source, 0, source.shape.dimensions, strides(source.shape))


def _transpose(view: View, transpose: Instruction) -> View:
    order = transpose.attributes_as(Dimensions).dimensions
    sizes = tuple([view.sizes[d] for d in order])
    return View(view.source, view.offset, sizes, tuple([view.steps[d] for d in order]))


def _broadcast(view: View, broadcast: Instruction) -> View:
    at = broadcast.attributes_as(Dimensions).dimensions
    sizes = broadcast.shape.dimensions
    steps = [0] * len(sizes)
    for d, size, step in zip(at, view.sizes, view.steps, strict=True):
        steps[d] = step if size == sizes[d] else 0
    return View(view.source, view.offset, sizes, tuple(steps))


def _slice(view: View, slice_: Instruction) -> View:
    how = slice_.attributes_as(Slice)
    offset = sum([x * step for x, step in zip(how.starts, view.steps, strict=True)])
    steps = tuple([x * step for x, step in zip(how.strides, view.steps, strict=True)])
    return View(view.source, view.offset + offset, slice_.shape.dimensions, steps)


def _reshape(view: View, reshape: Instruction) -> View | None:
    sizes = reshape.shape.dimensions
    steps = _reshaped(view, sizes, reshape)
    return None if steps is None else View(view.source, view.offset, sizes, steps)


def _reshaped(view: View, sizes: Sizes, reshape: Instruction) -> Sizes | None:
    """The dimensions as they lie, taken apart again from the last one on: the new steps."""
    if reshape.shape.element_type is not reshape.operands[0].shape.element_type or 0 in sizes:
        return None
    left = list(runs(view.sizes, view.steps))
    steps = []
    rest = left.pop() if left else StridedRun(1, 1)
    for size in reversed(sizes):
        if size == 1:
            steps.append(1)
            continue
        if rest.size == 1 and left:
            rest = left.pop()
        if rest.size % size:
            return None
        steps.append(rest.step)
        rest = StridedRun(rest.size // size, rest.step * size)
    return tuple(reversed(steps))


def _bitcast(view: View, bitcast: Instruction) -> View | None:
    """A reshape of the dimensions in the order in which they lie."""
    before = bitcast.operands[0].shape.physical_order
    after = bitcast.shape.physical_order
    lying = View(
        view.source,
        view.offset,
        tuple([view.sizes[d] for d in before]),
        tuple([view.steps[d] for d in before]),
    )
    sizes = bitcast.shape.dimensions
    found = _reshaped(lying, tuple([sizes[d] for d in after]), bitcast)
    if found is None:
        return None
    steps = dict(zip(after, found, strict=True))
    return View(view.source, view.offset, sizes, tuple([steps[d] for d in range(len(sizes))]))


_RULES: Final[dict[Opcode, Callable[[View, Instruction], View | None]]] = {
    Opcode.BITCAST: _bitcast,
    Opcode.BROADCAST: _broadcast,
    Opcode.RESHAPE: _reshape,
    Opcode.SLICE: _slice,
    Opcode.TRANSPOSE: _transpose,
}
