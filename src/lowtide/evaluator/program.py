"""A computation made ready to run: handlers looked up, values numbered, last uses known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lowtide.evaluator.registry import Handler, handler_of, is_computing
from lowtide.evaluator.values import Value, Values, from_literal, zeros
from lowtide.ir.attributes import Constant, CustomCall
from lowtide.ir.computation import Computation
from lowtide.ir.errors import unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.traversal import sequence
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class EvaluatorStep:
    """One instruction: the slots that it reads, the one that it writes, those dead after it."""

    instruction: Instruction
    handler: Handler
    slot: int
    operands: tuple[int, ...]
    dead: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EvaluatorProgram:
    """The steps of a computation as it is at `version`; `size` is the number of slots.

    Constants and parameters are no steps: their values are put in place before the first one.
    """

    version: int
    size: int
    steps: tuple[EvaluatorStep, ...]
    parameters: tuple[int, ...]
    constants: tuple[tuple[int, Value], ...]
    root: int


def compile_program(
    computation: Computation, table: Mapping[Opcode, Handler] | None = None
) -> EvaluatorProgram:
    """Return the program of a computation, in sequence order, without dead instructions.

    `table` replaces the usual handlers. An opcode without a handler is an error only when it is
    reached.
    """
    find = handler_of if table is None else table.get
    order = _needed(computation)
    slots = {instruction: i for i, instruction in enumerate(order)}
    last_use = _last_uses(order, computation.root)
    constants: list[tuple[int, Value]] = []
    steps: list[EvaluatorStep] = []
    for i, instruction in enumerate(order):
        if instruction.opcode is Opcode.PARAMETER:
            continue
        if instruction.opcode is Opcode.CONSTANT:
            constants.append((i, _constant(instruction)))
            continue
        operands = tuple([slots[operand] for operand in instruction.operands])
        dead = [j for j in dict.fromkeys((*operands, i)) if last_use.get(order[j]) == i]
        handler = _empty if makes_nothing(instruction) else find(instruction.opcode) or _missing
        steps.append(EvaluatorStep(instruction, handler, i, operands, tuple(dead)))
    return EvaluatorProgram(
        version=computation.version,
        size=len(order),
        steps=tuple(steps),
        parameters=tuple([slots[parameter] for parameter in computation.parameters]),
        constants=tuple(constants),
        root=slots[computation.root],
    )


def makes_nothing(instruction: Instruction) -> bool:
    """Whether the result has no elements, and nothing but making it is done.

    Such arrays may be long in their other dimensions, so that nothing may be made for these.
    """
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    if not leaves or not all(x.is_array and not x.is_dynamic for x in leaves):
        return False
    return not any(x.element_count for x in leaves) and is_computing(instruction.opcode)


def _empty(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return zeros(instruction.shape)


def _needed(computation: Computation) -> list[Instruction]:
    """Return parameters, what the root depends on, and what has effects, in sequence order."""
    order = list(sequence(computation))
    needed = {computation.root, *computation.parameters}
    for instruction in reversed(order):
        if instruction in needed or _has_effect(instruction):
            needed.add(instruction)
            needed.update(instruction.operands)
    return [instruction for instruction in order if instruction in needed]


EFFECTS: Final = frozenset(
    {Opcode.INFEED, Opcode.OUTFEED, Opcode.RECV, Opcode.RECV_DONE, Opcode.SEND, Opcode.SEND_DONE}
)
"""Operations that reach outside of the module."""


def _has_effect(instruction: Instruction) -> bool:
    """Whether running it, or what it calls, does more than compute its value."""
    stack = [instruction]
    seen: set[Computation] = set()
    while stack:
        found = stack.pop()
        attributes = found.attributes
        if found.opcode in EFFECTS:
            return True
        if isinstance(attributes, CustomCall) and attributes.has_side_effect:
            return True
        for computation in found.called_computations:
            if computation not in seen:
                seen.add(computation)
                stack.extend(computation.instructions.values())
    return False


def _last_uses(order: list[Instruction], root: Instruction) -> dict[Instruction, int]:
    """Return the position after which each value is dead; the root is absent."""
    last: dict[Instruction, int] = {}
    for i, instruction in enumerate(order):
        last[instruction] = i
        for operand in instruction.operands:
            last[operand] = i
    last.pop(root, None)
    return last


def _constant(instruction: Instruction) -> Value:
    return from_literal(instruction.attributes_as(Constant).literal)


def _missing(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    raise unsupported(instruction, "the evaluator does not know this operation")
