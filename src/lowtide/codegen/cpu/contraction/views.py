"""Operands of a dot as they lie in memory: a parameter seen through what only moves elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Final, TypeAlias

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.geometry import StridedRun, runs
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions, Parameter, Slice
from lowtide.ops.table import TABLE
from lowtide.records import dataclass

Sizes: TypeAlias = tuple[int, ...]
Runs: TypeAlias = tuple[StridedRun, ...]

_LONGEST: Final = 32
"""Steps of a computation that are gone through for the arrays behind it."""


@dataclass(frozen=True, slots=True)
class View:
    """Elements of the array of `source`, from `offset` on.

    `along` says for each dimension how its elements lie, outermost runs first: there are several
    where a dimension is made of some that do not lie like one, and none where it has one element.
    """

    source: Instruction
    offset: int
    along: tuple[Runs, ...]

    def runs(self, dimensions: Iterable[int]) -> Runs:
        """Return how the elements along some dimensions lie."""
        found = [run for d in dimensions for run in self.along[d]]
        return runs(tuple([x.size for x in found]), tuple([x.step for x in found]))

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
    view: View | None = _lying(source, source.shape.dimensions, strides(operand.shape))
    for step in reversed(steps):
        if view is None:
            return None
        view = _RULES[step.opcode](view, step)
    return view


def views_behind(instruction: Instruction, kernel: Instruction) -> tuple[View, ...]:
    """Return how the arrays lie that an instruction is computed from, element by element.

    It is a single view where `view_of` has one. Of a computation of more than `_LONGEST` steps some
    arrays may be missing; what is neither moved nor computed by elements has none.
    """
    found: list[View] = []
    steps = [instruction]
    for step in steps:  # It grows meanwhile.
        view = view_of(step, kernel)
        if view is not None:
            found += [] if view in found else [view]
        elif TABLE[step.opcode].elementwise and len(steps) < _LONGEST:
            same = [x for x in step.operands if x.shape.dimensions == step.shape.dimensions]
            steps += [x for x in dict.fromkeys(same) if x not in steps]
    return tuple(found)


def whole(source: Instruction) -> View:
    """Return the view of all of an array."""
    return _lying(source, source.shape.dimensions, strides(source.shape))


def _lying(source: Instruction, sizes: Sizes, steps: Sizes) -> View:
    """The view of an array whose neighbours along each dimension lie some steps apart."""
    pairs = zip(sizes, steps, strict=True)
    return View(source, 0, tuple([runs((size,), (step,)) for size, step in pairs]))


def _transpose(view: View, transpose: Instruction) -> View:
    order = transpose.attributes_as(Dimensions).dimensions
    return View(view.source, view.offset, tuple([view.along[d] for d in order]))


def _broadcast(view: View, broadcast: Instruction) -> View:
    at = broadcast.attributes_as(Dimensions).dimensions
    sizes = broadcast.shape.dimensions
    along = [runs((size,), (0,)) for size in sizes]
    for d, lying in zip(at, view.along, strict=True):
        if prod([x.size for x in lying]) == sizes[d]:
            along[d] = lying
    return View(view.source, view.offset, tuple(along))


def _slice(view: View, slice_: Instruction) -> View | None:
    """Part of each dimension; one of several runs has to stay whole."""
    how = slice_.attributes_as(Slice)
    offset, along = view.offset, list[Runs]()
    sizes = slice_.shape.dimensions
    for lying, start, stride, size in zip(view.along, how.starts, how.strides, sizes, strict=True):
        if len(lying) > 1:
            if size != prod([x.size for x in lying]):
                return None
            along.append(lying)
            continue
        step = lying[0].step if lying else 0
        offset += start * step
        along.append(runs((size,), (step * stride,)))
    return View(view.source, offset, tuple(along))


def _reshape(view: View, reshape: Instruction) -> View | None:
    along = _reshaped(view.runs(range(len(view.along))), reshape.shape.dimensions, reshape)
    return None if along is None else View(view.source, view.offset, along)


def _reshaped(lying: Runs, sizes: Sizes, reshape: Instruction) -> tuple[Runs, ...] | None:
    """The elements as they lie, taken apart again from the last dimension on."""
    if reshape.shape.element_type is not reshape.operands[0].shape.element_type or 0 in sizes:
        return None
    left = list(lying)
    found: list[Runs] = []
    for size in reversed(sizes):
        own: list[StridedRun] = []
        while size > 1:
            run = left.pop()
            taken = min(size, run.size)
            if size % taken or run.size % taken:
                return None
            own.append(StridedRun(taken, run.step))
            size //= taken
            if taken < run.size:
                left.append(StridedRun(run.size // taken, run.step * taken))
        found.append(tuple(reversed(own)))
    return tuple(reversed(found))


def _bitcast(view: View, bitcast: Instruction) -> View | None:
    """A reshape of the dimensions in the order in which they lie."""
    before = bitcast.operands[0].shape.physical_order
    after = bitcast.shape.physical_order
    sizes = bitcast.shape.dimensions
    found = _reshaped(view.runs(before), tuple([sizes[d] for d in after]), bitcast)
    if found is None:
        return None
    along = dict(zip(after, found, strict=True))
    return View(view.source, view.offset, tuple([along[d] for d in range(len(sizes))]))


_RULES: Final[dict[Opcode, Callable[[View, Instruction], View | None]]] = {
    Opcode.BITCAST: _bitcast,
    Opcode.BROADCAST: _broadcast,
    Opcode.RESHAPE: _reshape,
    Opcode.SLICE: _slice,
    Opcode.TRANSPOSE: _transpose,
}
