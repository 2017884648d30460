"""Ragged all-to-alls: rows of one array written over rows of another, in place.

Of several devices each one fetches the rows that others send it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

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
from lowtide.records import dataclass


def plan_ragged_all_to_all(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a ragged-all-to-all whose group has one device.

    Rows that would be read or written outside of the arrays are left out.
    """
    require_alone(instruction)
    return KernelPlan(lambda: _code(instruction, target))


def plan_ragged_fetch(instruction: Instruction, size: int, target: Target) -> KernelPlan:
    """Return the kernel of one device of a group of `size`.

    It is given the inputs of all devices in order of the group, the input offsets of all, their
    send sizes and their output offsets; then an s32 with the first of the numbers that are for this
    device, and the array that it receives rows in.
    """
    return KernelPlan(lambda: _fetching_code(instruction, size, target))


def _code(instruction: Instruction, target: Target) -> KernelCode:
    fn = Function("collective", ARGUMENTS)
    elements = scalar_elements(fn, target)
    bound = bind(fn, instruction)
    arrays = [bound.frame.arrays[x] for x in instruction.operands]
    count = instruction.operands[2].shape.dimensions[0]
    rows = _Rows(arrays[0], bound.results[0], arrays[2:5])
    return _coded(fn, instruction, [rows], elements, 0, count)


def _fetching_code(instruction: Instruction, size: int, target: Target) -> KernelCode:
    fn = Function("collective", ARGUMENTS)
    elements = scalar_elements(fn, target)
    shapes = [instruction.operands[i].shape for i in (0, 2, 3, 4)]
    numbers = [[_buffer(fn, size * i + j) for j in range(size)] for i in range(4)]
    first = fn.load("i32", _buffer(fn, 4 * size), 4)
    result = Array(_buffer(fn, 4 * size + 1), instruction.shape)
    each = []
    for j in range(size):
        source, *others = [Array(x[j], shape) for x, shape in zip(numbers, shapes, strict=True)]
        each.append(_Rows(source, result, others))
    begin = fn.op(f"sext i32 {first} to i64")
    count = instruction.operands[2].shape.dimensions[0] // size
    return _coded(fn, instruction, each, elements, begin, count)


def _buffer(fn: Function, number: int) -> str:
    return fn.load("ptr", fn.gep("%buffers", number, "ptr"), 8)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a source, written to a result; `numbers` are starts, sizes and places of slices."""

    source: Array
    result: Array
    numbers: Sequence[Array]


def _coded(
    fn: Function,
    instruction: Instruction,
    senders: Sequence[_Rows],
    elements: Elements,
    begin: Integer,
    count: int,
) -> KernelCode:
    """The kernel that writes `count` slices of each sender, from the slice `begin` on."""
    shape = instruction.shape
    row = prod(shape.dimensions[1:]) * shape.element_type.nbytes
    if not row or not count:
        return KernelCode((), ())
    for rows in senders:
        with elements.scopes.loop(0, count) as loop:
            here = elements.indices.variable(fn.add(loop.index, begin), MOST_SLICES)
            start, size, place = (_number(elements, x, here) for x in rows.numbers)
            size = _fitting(fn, start, size, rows.source.shape.dimensions[0])
            size = _fitting(fn, place, size, shape.dimensions[0])
            given = fn.gep(rows.source.pointer, fn.mul(fn.max(start, 0), row))
            to = fn.gep(rows.result.pointer, fn.mul(fn.max(place, 0), row))
            fn.call(MOVE, [to, given, fn.mul(size, row), "false"])
    each = seconds(2 * instruction.operands[0].shape.nbytes, 20 * count * len(senders))
    return KernelCode((fn,), (Phase(fn.name, 1, each),))


MOST_SLICES: Final = 1 << 31
"""No index of a slice is larger."""


def _number(elements: Elements, array: Array, at: Affine) -> Integer:
    """An element of an integer array as an i64."""
    found = elements.read(array, (at,), None)
    return converted(elements, found, ElementType.S64).values[0].name


def _fitting(fn: Function, start: Integer, size: Integer, extent: int) -> Integer:
    """How many of `size` rows from `start` on there are; none where it begins outside."""
    left = fn.max(fn.min(size, fn.sub(extent, start)), 0)
    return fn.select(fn.compare("ult", start, extent + 1), "i64", left, 0)
