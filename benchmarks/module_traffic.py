"""The bytes that a program moves between its kernels, and the number of kernels it starts."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Fusion
from lowtide.ir.traversal import computation_post_order
from lowtide.ops.backend_config import known_trip_count
from lowtide.ops.cost import cost, fusion_bytes
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written by kernels, and the number of kernels; loops count each iteration."""

    nbytes: float = 0.0
    kernels: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        """Return what two parts of a program move one after the other."""
        return Traffic(self.nbytes + other.nbytes, self.kernels + other.kernels)

    def times(self, count: int) -> Traffic:
        """Return what so many runs move."""
        return Traffic(self.nbytes * count, self.kernels * count)


def module_traffic(module: Module) -> Traffic:
    """Return what one run of a module moves, by the rules of XLA's HloCostAnalysis.

    A fusion counts how it reads its operands and what it writes, one of kind kCustom and a custom
    call their operands and results; a loop the trip count that it is annotated with, or one
    iteration; a conditional the branch that moves most. Parameters, constants and tuples are no
    kernels.
    """
    known: dict[Computation, Traffic] = {}
    for computation in computation_post_order(module):
        parts = [_traffic(x, known) for x in computation.instructions.values()]
        known[computation] = sum(parts, Traffic())
    return known[module.entry]


_FREE: Final = frozenset(
    {Opcode.BITCAST, Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE}
)


def _traffic(instruction: Instruction, known: dict[Computation, Traffic]) -> Traffic:
    opcode = instruction.opcode
    if opcode is Opcode.FUSION:
        return Traffic(_fusion_bytes(instruction), 1)
    if opcode is Opcode.CUSTOM_CALL:
        return Traffic(_whole_bytes(instruction), 1)
    called = [known[x] for x in instruction.called_computations]
    if opcode is Opcode.WHILE:
        count = known_trip_count(instruction)
        return sum(called, Traffic()).times(1 if count is None else count)
    if opcode is Opcode.CONDITIONAL:
        return max(called, key=lambda x: x.nbytes)
    if opcode is Opcode.CALL:
        return called[0]
    return Traffic(cost(instruction).bytes_accessed, opcode not in _FREE)


def _fusion_bytes(fusion: Instruction) -> float:
    if fusion.attributes_as(Fusion).kind != "kCustom":
        return fusion_bytes(fusion)
    return _whole_bytes(fusion)


def _whole_bytes(instruction: Instruction) -> float:
    """All operands and results."""
    shapes = [instruction.shape, *[x.shape for x in instruction.operands]]
    return sum([leaf.nbytes for shape in shapes for _, leaf in shape.leaves()])
