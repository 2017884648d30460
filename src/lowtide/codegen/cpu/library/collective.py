"""Collective operations of several devices: what each device does once all of a group have met.

Devices read the buffers of one another. Values are combined in the order of the group, whoever does
it, so that all devices have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.cpu.library.collective_loops import (
    all_to_all,
    cleared,
    gathered,
    moved,
    reduced,
    scattered,
)
from lowtide.codegen.cpu.library.copies import Copy, copies_code
from lowtide.codegen.cpu.library.ragged_all_to_all import plan_ragged_fetch
from lowtide.codegen.cpu.loop import plan_loop
from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.elements.reducers import monoid_of
from lowtide.codegen.kernel import CollectivePart, CollectivePlan, KernelCode, KernelPlan
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.collective import CollectiveBuffer, CollectiveStep, DeviceCollective, Whose
from lowtide.ir.errors import unsupported
from lowtide.ir.partitioning import MOST_RUN, check_device_count
from lowtide.llvm.target import Target
from lowtide.ops.device_groups import Groups, check_pairs, devices_of, groups_of


def plan_collective(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a collective operation, None where each device is alone in it.

    Raises UnsupportedOpError for a group that leaves a device out, and a form that is not run;
    InputError for more devices than a program is run on.
    """
    if devices_of(instruction.parent.module) == 1:
        return None
    if instruction.opcode in _NUMBERS:
        return _planned(_Writer(instruction, (), target), _number)
    check_device_count(instruction.parent.module, MOST_RUN)
    groups = groups_of(instruction)
    is_permute = instruction.opcode in _PERMUTES
    if not is_permute and all(len(group) == 1 for group in groups):
        return None
    return _planned(_Writer(instruction, groups, target), _RULES[instruction.opcode])


class _Writer:
    """The steps of an instruction, as they are found, and their kernels.

    `given` and `received` are the arrays that a device brings and receives.
    """

    def __init__(self, instruction: Instruction, groups: Groups, target: Target) -> None:
        self.instruction = instruction
        self.groups = groups
        self.target = target
        self.given = [x for operand in instruction.operands for x in leaves(operand.shape)]
        self.received = leaves(instruction.shape)
        if instruction.opcode in _WITH_OPERANDS:
            self.received = self.received[len(self.given) :]
        self.sizes = sorted({len(group) for group in groups})
        self.pairs: tuple[tuple[int, int], ...] = ()
        self.steps: list[CollectiveStep] = []
        self.parts: list[CollectivePart] = []

    @property
    def attributes(self) -> Collective:
        """Those of all operations but collective-permute."""
        return self.instruction.attributes_as(Collective)

    @property
    def dimension(self) -> int:
        """The dimension that is gathered, scattered or split."""
        found = self.attributes.dimension
        assert found is not None
        return found

    def reducer(self) -> Opcode:
        """The operation that combines values; raises UnsupportedOpError for more than one."""
        found = monoid_of(self.instruction.called_computations[0])
        if found is None:
            raise self.refusal("reduces by more than one plain operation, which nothing here does")
        return found

    def refusal(self, reason: str) -> Exception:
        """The error to raise."""
        return unsupported(self.instruction, reason)

    def own(self, result: int) -> CollectiveBuffer:
        """The own buffer of a result."""
        return CollectiveBuffer(Whose.OWN, len(self.given) + result)

    def every(self, operand: int) -> CollectiveBuffer:
        """The buffers of an operand on all devices of the group."""
        return CollectiveBuffer(Whose.EVERY, operand)

    def step(
        self,
        part: CollectivePart,
        *buffers: CollectiveBuffer,
        size: int = 0,
        sent: bool | None = None,
        shared: bool = False,
    ) -> None:
        """Add a step."""
        self.steps.append(CollectiveStep(len(self.parts), buffers, size, sent, shared))
        self.parts.append(part)

    def loop(self, fusion: Instruction) -> CollectivePart:
        """Return a fusion as a loop over its elements."""
        return CollectivePart(plan_loop(fusion, self.target), fusion)

    def copy(
        self, source: CollectiveBuffer, given: Shape, result: int, sent: bool | None = None
    ) -> None:
        """Add a copy to a result of what is as large."""
        shape = self.received[result]
        if given.dimensions != shape.dimensions:
            raise self.refusal(f"{given} cannot become {shape} by moving it")
        copies = [Copy(0, given, 1, shape)]
        part = CollectivePart(KernelPlan(lambda: copies_code(copies)), moved(given, shape))
        self.step(part, source, self.own(result), sent=sent)

    def clear(self, result: int, sent: bool | None = None) -> None:
        """Add zeros in the place of a result."""
        shape = self.received[result]
        copies = [Copy(None, None, 0, shape)]
        part = CollectivePart(KernelPlan(lambda: copies_code(copies)), cleared(shape))
        self.step(part, self.own(result), sent=sent)

    def check_sizes(self, whole: Shape, part: Shape, size: int) -> None:
        """Raise UnsupportedOpError unless an array is `size` times another along the dimension."""
        sizes = list(part.dimensions)
        sizes[self.dimension] *= size
        if list(whole.dimensions) != sizes:
            raise self.refusal(f"{whole} is not {part} times the {size} devices of its group")


def _planned(writer: _Writer, rule: Callable[[_Writer], None]) -> KernelPlan:
    rule(writer)
    collective = DeviceCollective(
        tuple(writer.given),
        tuple(writer.received),
        tuple(writer.steps),
        writer.groups,
        writer.pairs,
    )
    return KernelPlan(
        lambda: KernelCode((), ()),
        max([x.plan.shared_bytes for x in writer.parts], default=0),
        max([x.plan.thread_bytes for x in writer.parts], default=0),
        collective=CollectivePlan(collective, tuple(writer.parts)),
    )


# -- rules -----------------------------------------------------------------------------------------


def _number(writer: _Writer) -> None:
    is_partition = writer.instruction.opcode is Opcode.PARTITION_ID
    whose = Whose.PARTITION if is_partition else Whose.REPLICA
    writer.copy(CollectiveBuffer(whose), writer.received[0], 0)


def _all_reduce(writer: _Writer) -> None:
    reducer = writer.reducer()
    for size in writer.sizes:
        for i, (given, result) in enumerate(zip(writer.given, writer.received, strict=True)):
            part = writer.loop(reduced(given, result, size, reducer))
            everywhere = CollectiveBuffer(Whose.EVERY, len(writer.given) + i)
            writer.step(part, writer.every(i), everywhere, size=size, shared=True)


def _reduce_scatter(writer: _Writer) -> None:
    reducer, dimension = writer.reducer(), writer.dimension
    for size in writer.sizes:
        for i, (given, result) in enumerate(zip(writer.given, writer.received, strict=True)):
            writer.check_sizes(given, result, size)
            part = writer.loop(scattered(given, result, size, dimension, reducer))
            start = CollectiveBuffer(Whose.PLACE, result.dimensions[dimension])
            zero = CollectiveBuffer(Whose.PLACE, 0)
            writer.step(part, writer.every(i), start, zero, writer.own(i), size=size)


def _all_gather(writer: _Writer) -> None:
    for size in writer.sizes:
        for i, (given, result) in enumerate(zip(writer.given, writer.received, strict=True)):
            writer.check_sizes(result, given, size)
            part = writer.loop(gathered(given, result, size, writer.dimension))
            writer.step(part, writer.every(i), writer.own(i), size=size)


def _all_to_all(writer: _Writer) -> None:
    if writer.attributes.dimension is None:
        _deal(writer)
        return
    dimension = writer.dimension
    for size in writer.sizes:
        for i, (given, result) in enumerate(zip(writer.given, writer.received, strict=True)):
            if given.dimensions[dimension] % size:
                raise writer.refusal(f"{given} is not cut in {size} equal parts")
            part = writer.loop(all_to_all(given, result, size, dimension))
            start = CollectiveBuffer(Whose.PLACE, given.dimensions[dimension] // size)
            zero = CollectiveBuffer(Whose.PLACE, 0)
            writer.step(part, writer.every(i), start, zero, writer.own(i), size=size)


def _deal(writer: _Writer) -> None:
    """Operand i goes to the device at place i."""
    count = len(writer.given)
    if writer.sizes != [count]:
        raise writer.refusal(f"{count} operands need groups of as many devices")
    if len({*writer.given}) > 1:
        raise writer.refusal("its operands differ in type, sizes or layout")
    for i, given in enumerate(writer.given):
        writer.copy(CollectiveBuffer(Whose.DEALT, i), given, i)


def _ragged(writer: _Writer) -> None:
    """The rows that others send are fetched; the result lies where operand 1 does."""
    numbers = writer.given[2].dimensions[0]
    for size in writer.sizes:
        if any(x.dimensions != (numbers,) for x in writer.given[2:]) or numbers % size:
            raise writer.refusal(f"{numbers} slices are not as many for each of {size} devices")
        part = CollectivePart(plan_ragged_fetch(writer.instruction, size, writer.target))
        every = [writer.every(i) for i in (0, 2, 3, 4)]
        first = CollectiveBuffer(Whose.PLACE, numbers // size)
        writer.step(part, *every, first, writer.own(0), size=size)


def _broadcast(writer: _Writer) -> None:
    if writer.attributes.has_dynamic_root:
        raise writer.refusal("no form with a root chosen by a value is run; the plain one is")
    for i, given in enumerate(writer.given):
        writer.copy(CollectiveBuffer(Whose.FIRST, i), given, i)


def _permute(writer: _Writer) -> None:
    how = writer.instruction.attributes_as(CollectivePermute)
    if how.slice_sizes:
        raise writer.refusal("no form with slice_sizes is run; the plain one is")
    check_pairs(writer.instruction)
    writer.pairs = how.source_target_pairs
    for i, given in enumerate(writer.given):
        writer.copy(CollectiveBuffer(Whose.SOURCE, i), given, i, sent=True)
        writer.clear(i, sent=False)
    for context in range(len(writer.given), len(writer.received)):
        writer.clear(context)


_NUMBERS: Final = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID})
_PERMUTES: Final = frozenset({Opcode.COLLECTIVE_PERMUTE, Opcode.COLLECTIVE_PERMUTE_START})
_WITH_OPERANDS: Final = frozenset({Opcode.ALL_GATHER_START, Opcode.COLLECTIVE_PERMUTE_START})
"""Operations whose results begin with their operands."""

_RULES: Final[Mapping[Opcode, Callable[[_Writer], None]]] = {
    Opcode.ALL_GATHER: _all_gather,
    Opcode.ALL_GATHER_START: _all_gather,
    Opcode.ALL_REDUCE: _all_reduce,
    Opcode.ALL_REDUCE_START: _all_reduce,
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _broadcast,
    Opcode.COLLECTIVE_PERMUTE: _permute,
    Opcode.COLLECTIVE_PERMUTE_START: _permute,
    Opcode.RAGGED_ALL_TO_ALL: _ragged,
    Opcode.REDUCE_SCATTER: _reduce_scatter,
}
"""What starts an operation does all of it."""
