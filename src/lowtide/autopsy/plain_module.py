"""An optimized module as one that a compiler can start from again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lowtide.analysis.value_numbers import ValueNumbers
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.annotations import NO_ANNOTATIONS, Annotations
from lowtide.ir.attributes import CustomCall
from lowtide.ir.traversal import computation_post_order, post_order
from lowtide.ops.bitcasts import bitcast_steps
from lowtide.ops.table import family_of

_HEADER = (
    "entry_layout",
    "input_output_aliases",
    "buffer_donors",
    "replica_count",
    "num_partitions",
    "stack_frames",
)


def plain_module(module: Module) -> Module:
    """Return a module that computes the same, without order, fusions, bitcasts and layouts.

    The instructions of a fusion stand in its place, a bitcast is what it does to the array
    (reshape, transpose, bitcast-convert), and copies are gone. Parameters and result of the entry
    keep the layouts that callers see. Dots, reductions and the like that the module computes twice
    from the same operands read them through an optimization-barrier the second time: somebody
    wanted them computed again, and XLA removes the barriers only late.
    """
    plain = Module(module.name)
    for name in _HEADER:
        setattr(plain, name, getattr(module, name))
    done: dict[Computation, Computation] = {}
    fused = {
        callee
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.FUSION
        for callee in x.called_computations
    }
    for computation in computation_post_order(module):
        if computation in fused:
            continue
        target = plain.add_computation(computation.name)
        done[computation] = target
        writer = _Writer(target, done)
        target.root = writer.write(computation)
    plain.entry = done[module.entry]
    return plain


_DEAR: Final = frozenset({"contraction", "convolution", "reduction", "sorting", "linear algebra"})
"""The families of operations that no compiler computes twice by chance."""


class _Writer:
    """Writes instructions to one computation, those of fusions included."""

    def __init__(self, target: Computation, done: dict[Computation, Computation]) -> None:
        self.target = target
        self.done = done
        self.numbers = ValueNumbers(alone=lambda x: x.opcode is Opcode.PARAMETER)
        """Barriers of one value count as equal: nothing keeps a compiler from merging them."""
        self.number: dict[Instruction, int] = {}
        self.dear: set[int] = set()
        """The numbers of what is dear to compute and there already."""

    def write(self, source: Computation, arguments: Sequence[Instruction] = ()) -> Instruction:
        """Write what `source` does and return its result; without arguments, with parameters."""
        made = dict(zip(source.parameters, arguments, strict=False))
        for x in post_order(source):
            if x not in made:
                made[x] = self._instruction(x, [made[operand] for operand in x.operands])
        return made[source.root]

    def _instruction(self, x: Instruction, operands: list[Instruction]) -> Instruction:
        if x.opcode is Opcode.FUSION:
            return self.write(x.called_computations[0], operands)
        if x.opcode is Opcode.COPY and x.shape.is_array:
            return operands[0]
        if x.opcode is Opcode.BITCAST:
            return self._bitcast(x, operands[0])
        return self._copy(x, operands)

    def _copy(self, x: Instruction, operands: list[Instruction]) -> Instruction:
        keeps_layout = isinstance(x.attributes, CustomCall) and x.attributes.operand_layouts
        shape = x.shape if keeps_layout else x.shape.with_default_layout()
        called = tuple([self.done[callee] for callee in x.called_computations])
        copy = self.target.add_like(
            x, tuple(operands), shape=shape, called_computations=called, annotations=_annotations(x)
        )
        if self._find(copy) in self.dear:
            copy.set_operands(tuple([self._barrier(operand) for operand in operands]))
            self._tell_apart(copy)
        if family_of(x.opcode) in _DEAR:
            self.dear.add(self.number[copy])
        return copy

    def _barrier(self, operand: Instruction) -> Instruction:
        if not operand.shape.is_array or operand.shape.element_count == 1:
            return operand
        barrier = self.target.add(Opcode.OPTIMIZATION_BARRIER, operand.shape, (operand,))
        self._tell_apart(barrier)
        return barrier

    def _find(self, x: Instruction) -> int:
        """Give an instruction its number, that of an equal one if there is any."""
        found = self.number[x] = self.numbers.of(x, self.number)
        return found

    def _tell_apart(self, x: Instruction) -> None:
        """Give an instruction a number that nothing else has."""
        self.number[x] = self.numbers.of_key(x)

    # -- bitcasts ------------------------------------------------------------------------------

    def _bitcast(self, x: Instruction, operand: Instruction) -> Instruction:
        """The array with the same bytes: to the order in memory, to the new sizes, and back."""
        for step in bitcast_steps(x.operands[0].shape, x.shape):
            operand = self.target.add(step.opcode, step.shape, (operand,), step.attributes)
            self._find(operand)
        return operand


def _annotations(x: Instruction) -> Annotations:
    """What has a meaning to the program: not hints of the compiler to itself."""
    keeps = x.opcode is Opcode.CUSTOM_CALL
    return replace(
        NO_ANNOTATIONS,
        sharding=x.annotations.sharding,
        backend_config=x.annotations.backend_config if keeps else "",
        frontend_attributes=x.annotations.frontend_attributes if keeps else (),
    )
