"""A computation made ready to run in memory: its steps, and how often each value is used."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.evaluator.in_arena.passing import Source, passed_leaves
from lowtide.evaluator.in_arena.storage import Storage, storage_of
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.program import compile_program
from lowtide.evaluator.registry import Handler, handlers
from lowtide.evaluator.values import Value, Values, from_literal
from lowtide.ir.attributes import Constant
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.traversal import sequence
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class ArenaStep:
    """One instruction. `number` is its place in the order, `operands` those of its operands.

    `storages` has a row per leaf of the result; `passed` says which of them are leaves of
    operands. What is not `needed` for the result is not evaluated, but its memory is written.
    """

    number: int
    instruction: Instruction
    handler: Handler | None
    operands: tuple[int, ...]
    storages: tuple[Storage, ...]
    passed: tuple[Source, ...] | None
    needed: bool

    def name(self, leaf: int = 0) -> str:
        """Return how messages call a leaf of the result."""
        shape = self.instruction.shape
        if not shape.is_tuple:
            return f"%{self.instruction.name}"
        index = [index for index, _ in shape.leaves()][leaf]
        return f"%{self.instruction.name} {{{','.join(map(str, index))}}}"


@dataclass(frozen=True, eq=False, slots=True)
class ArenaCode:
    """The steps of a computation in its order.

    `uses` counts per step the steps which read it, and the caller for the root.
    """

    computation: Computation
    steps: tuple[ArenaStep, ...]
    parameters: tuple[int, ...]
    root: int
    uses: tuple[int, ...]


def code_of(computation: Computation) -> ArenaCode:
    """Return the steps of a computation, all of its instructions, in sequence order."""
    order = list(sequence(computation))
    numbers = {instruction: i for i, instruction in enumerate(order)}
    needed = {step.instruction for step in compile_program(computation).steps}
    needed.update(computation.parameters)
    steps = [_step(i, x, numbers, x in needed) for i, x in enumerate(order)]
    root = numbers[computation.root]
    return ArenaCode(
        computation,
        tuple(steps),
        tuple([numbers[parameter] for parameter in computation.parameters]),
        root,
        _uses(steps, root),
    )


def _step(
    number: int, instruction: Instruction, numbers: dict[Instruction, int], needed: bool
) -> ArenaStep:
    return ArenaStep(
        number,
        instruction,
        _literal if instruction.opcode is Opcode.CONSTANT else handlers().get(instruction.opcode),
        tuple([numbers[operand] for operand in instruction.operands]),
        tuple([storage_of(shape) for _, shape in instruction.shape.leaves()]),
        passed_leaves(instruction),
        needed or instruction.opcode is Opcode.CONSTANT,
    )


def _literal(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    return from_literal(instruction.attributes_as(Constant).literal)


def _uses(steps: Sequence[ArenaStep], root: int) -> tuple[int, ...]:
    uses = [0] * len(steps)
    for step in steps:
        for operand in dict.fromkeys(step.operands):
            uses[operand] += 1
    uses[root] += 1
    return tuple(uses)
