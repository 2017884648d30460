"""Cost of instructions, computations and modules, by the rules of XLA's HloCostAnalysis.

A loop counts one iteration, a conditional its dearest branch, a call the computation it runs.
Nothing is known of custom calls: they count in `Cost.unknown`.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.traversal import callees
from lowtide.ops.in_place import source_of
from lowtide.ops.quantities import Cost, flop_per_element, moves_all
from lowtide.ops.table import TABLE

Memo = dict[Computation, Cost]
"""The costs of computations that are known already; valid until one of them changes."""


def cost(instruction: Instruction, memo: Memo | None = None) -> Cost:
    """Return the work of one execution of an instruction, called computations included."""
    memo = {} if memo is None else memo
    for callee in instruction.called_computations:
        computation_cost(callee, memo)
    return _instruction_cost(instruction, memo)


def module_cost(module: Module, memo: Memo | None = None) -> Cost:
    """Return the work of one run of the entry computation."""
    return computation_cost(module.entry, memo)


def computation_cost(computation: Computation, memo: Memo | None = None) -> Cost:
    """Return the work of one run of a computation; each one it calls is looked at once."""
    memo = {} if memo is None else memo
    stack = [computation]
    while stack:
        current = stack[-1]
        if current in memo:
            stack.pop()
            continue
        waiting = [callee for callee in callees(current) if callee not in memo]
        if waiting:
            stack.extend(waiting)
            continue
        memo[current] = _sum_of(current, memo)
        stack.pop()
    return memo[computation]


def _sum_of(computation: Computation, memo: Memo) -> Cost:
    flops = transcendentals = moved = 0.0
    unknown = 0
    for instruction in computation.instructions.values():
        one = _instruction_cost(instruction, memo)
        flops += one.flops
        transcendentals += one.transcendentals
        moved += one.bytes_accessed
        unknown += one.unknown
    return Cost(flops, transcendentals, moved, unknown)


def _instruction_cost(instruction: Instruction, memo: Memo) -> Cost:
    called = [memo[callee] for callee in instruction.called_computations]
    if instruction.opcode is Opcode.FUSION:
        return called[0].times(1) + Cost(bytes_accessed=fusion_bytes(instruction))
    operands = [operand.shape for operand in instruction.operands]
    rule = TABLE[instruction.opcode].cost
    if rule not in _RULES_OF_SHAPES:
        return rule(instruction.shape, operands, instruction.attributes, called)
    key = (rule, instruction.shape, *operands)
    found = _OF_SHAPES.get(key)
    if found is None:
        if len(_OF_SHAPES) >= _MOST_KNOWN:
            _OF_SHAPES.clear()
        found = _OF_SHAPES[key] = rule(instruction.shape, operands, instruction.attributes, called)
    return found


_RULES_OF_SHAPES: Final = frozenset({flop_per_element, moves_all})
"""Rules that look at shapes only."""

_OF_SHAPES: Final[dict[tuple[object, ...], Cost]] = {}
"""The costs by these rules, which layers of a model ask for again and again."""

_MOST_KNOWN: Final = 1 << 14


# -- fusions -----------------------------------------------------------------------------------


def fusion_bytes(fusion: Instruction) -> int:
    """Return the bytes that a fusion reads from its operands and writes to its outputs.

    A parameter that is only sliced counts its slices; what is updated in place counts the update.
    """
    callee = fusion.called_computations[0]
    reads = sum([read_bytes(parameter) for parameter in callee.parameters])
    writes = sum([_written_bytes(fusion, index) for index, _ in fusion.shape.leaves()])
    constants = sum(
        [
            x.shape.nbytes
            for x in callee.instructions.values()
            if x.opcode is Opcode.CONSTANT and x.shape.element_count > 1
        ]
    )
    return reads + writes + constants


def _written_bytes(fusion: Instruction, index: tuple[int, ...]) -> int:
    source, _ = source_of(fusion.called_computations[0].root, index)
    if source.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return source.operands[1].shape.nbytes
    return fusion.shape.at(index).nbytes


_WHOLE: Final = -1
"""Stands for a reader that needs all bytes and shares the read with others of its kind."""


def read_bytes(parameter: Instruction) -> int:
    """Return the bytes of a fused parameter that are read, fusions within included."""
    total = 0
    stack = [parameter]
    while stack:
        value = stack.pop()
        whole = False
        for user in value.users:
            if user.opcode is Opcode.FUSION or user.opcode is Opcode.GET_TUPLE_ELEMENT:
                stack.extend(_inside(user, value))
                continue
            count = _bytes_read_by(user, value)
            whole = whole or count == _WHOLE
            total += max(count, 0)
        total += value.shape.nbytes if whole else 0
    return total


def _inside(user: Instruction, value: Instruction) -> list[Instruction]:
    if user.opcode is Opcode.GET_TUPLE_ELEMENT:
        return [user]
    parameters = user.called_computations[0].parameters
    return [parameters[i] for i, operand in enumerate(user.operands) if operand is value]


def _bytes_read_by(user: Instruction, value: Instruction) -> int:
    if user.opcode is Opcode.SLICE:
        return user.shape.nbytes
    if user.opcode is Opcode.DYNAMIC_SLICE and user.operands[0] is value:
        return user.shape.nbytes
    if user.opcode is Opcode.DYNAMIC_UPDATE_SLICE and user.operands[0] is value:
        return 0
    return value.shape.nbytes if user.opcode is Opcode.BROADCAST else _WHOLE
