"""A ragged-all-to-all of one device: rows of one array written over rows of another, in place."""

from __future__ import annotations

from math import prod

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.passing import require_alone
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.ir import ElementType, Instruction
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import MOVE
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target


def plan_ragged_exchange(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a ragged-all-to-all whose group has one device.

    Rows that would be read or written outside of the arrays are left out.
    """
    require_alone(instruction)
    return KernelPlan(lambda: _code(instruction, target))


def _code(instruction: Instruction, target: Target) -> KernelCode:
    fn = Function("exchange", ARGUMENTS)
    elements = scalar_elements(fn, target)
    bound = bind(fn, instruction)
    arrays = [bound.frame.arrays[x] for x in instruction.operands]
    source, result = arrays[0], bound.results[0]
    shape = result.shape
    row = prod(shape.dimensions[1:]) * shape.element_type.nbytes
    count = instruction.operands[2].shape.dimensions[0]
    if not row or not count:
        return KernelCode((), ())
    with elements.scopes.loop(0, count) as loop:
        here = elements.indices.variable(loop.index, count)
        start, size, place = (_number(elements, arrays[i], here) for i in (2, 3, 4))
        size = _fitting(fn, start, size, source.shape.dimensions[0])
        size = _fitting(fn, place, size, shape.dimensions[0])
        given = fn.gep(source.pointer, fn.mul(fn.max(start, 0), row))
        to = fn.gep(result.pointer, fn.mul(fn.max(place, 0), row))
        fn.call(MOVE, [to, given, fn.mul(size, row), "false"])
    each = seconds(2 * source.shape.nbytes, 20 * count)
    return KernelCode((fn,), (Phase(fn.name, 1, each),))


def _number(elements: Elements, array: Array, at: Affine) -> Integer:
    """An element of an integer array as an i64."""
    found = elements.read(array, (at,), None)
    return converted(elements, found, ElementType.S64).values[0].name


def _fitting(fn: Function, start: Integer, size: Integer, extent: int) -> Integer:
    """How many of `size` rows from `start` on there are; none where it begins outside."""
    left = fn.max(fn.min(size, fn.sub(extent, start)), 0)
    return fn.select(fn.compare("ult", start, extent + 1), "i64", left, 0)
