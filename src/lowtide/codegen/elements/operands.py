"""The arrays of a kernel: what its instruction reads, and the results that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.values import CallFrame
from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.llvm.direct_addresses import buffer_pointer
from lowtide.llvm.function import Function
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Bound:
    """An instruction in a function of its kernel: `frame` for what it reads, `results` in memory.

    `root` is the instruction whose elements are wanted: the root of a fusion, or the instruction.
    """

    root: Instruction
    frame: CallFrame
    results: tuple[Array, ...]


def leaves(shape: Shape) -> list[Shape]:
    """Return the arrays of a shape, depth first."""
    return [leaf for _, leaf in shape.leaves() if leaf.is_array]


def bind(function: Function, instruction: Instruction, given_pointers: Sequence[str] = ()) -> Bound:
    """Return the arrays of an instruction, operands first, at the addresses that are given.

    Where none are given they are loaded from `%buffers`.
    """
    pointers = iter(given_pointers or _loaded_pointers(function))

    def array(shape: Shape) -> Array:
        return Array(next(pointers), shape)

    operands: dict[Instruction, list[Array]] = {}
    given = [[array(x) for x in leaves(operand.shape)] for operand in instruction.operands]
    for operand, arrays in zip(instruction.operands, given, strict=True):
        operands.setdefault(operand, arrays)
    results = tuple([array(x) for x in leaves(instruction.shape)])
    if instruction.opcode is not Opcode.FUSION:
        one = {x: arrays[0] for x, arrays in operands.items() if x.shape.is_array}
        parts = {x: tuple(arrays) for x, arrays in operands.items() if x.shape.is_tuple}
        return Bound(instruction, CallFrame(one, tuples=parts), results)
    callee = instruction.called_computations[0]
    bound = {
        parameter: arrays[0]
        for parameter, arrays in zip(callee.parameters, given, strict=True)
        if parameter.shape.is_array
    }
    parts = {
        parameter: tuple(arrays)
        for parameter, arrays in zip(callee.parameters, given, strict=True)
        if parameter.shape.is_tuple
    }
    return Bound(callee.root, CallFrame(bound, tuples=parts), results)


def _loaded_pointers(function: Function) -> Iterator[str]:
    for number in count():
        yield function.buffers.setdefault(number, buffer_pointer(number))


def roots_of(root: Instruction) -> list[Instruction]:
    """Return the instructions that make the arrays of a result, through tuples, depth first."""
    if root.opcode is not Opcode.TUPLE:
        return [root]
    found: list[Instruction] = []
    stack = [root]
    while stack:
        instruction = stack.pop()
        if instruction.opcode is Opcode.TUPLE:
            stack += reversed(instruction.operands)
        else:
            found.append(instruction)
    return found


def body_of(instruction: Instruction) -> Computation | None:
    """Return the computation of a fusion, None for any other instruction."""
    if instruction.opcode is not Opcode.FUSION:
        return None
    return instruction.called_computations[0]


def members(instruction: Instruction) -> list[Instruction]:
    """Return the instructions that a kernel computes: those of a fusion, else the one given."""
    body = body_of(instruction)
    if body is None:
        return [instruction]
    found: list[Instruction] = []
    stack = [body]
    while stack:
        for member in stack.pop().instructions.values():
            if member.opcode is Opcode.FUSION:
                stack += member.called_computations
            elif member.opcode is not Opcode.PARAMETER:
                found.append(member)
    return found
