"""Computations and their instructions: from protobuf, by way of ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto.attribute_reader import read_attributes
from lowtide.frontend.hlo_proto.enums import COMPARISON_OPCODES
from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.instruction_source import Source
from lowtide.frontend.hlo_proto.notes import read_annotations
from lowtide.frontend.hlo_proto.shapes import ShapeReader
from lowtide.frontend.hlo_proto.shardings import ShardingReader
from lowtide.frontend.hlo_proto.sources import read_metadata
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import NO_METADATA
from lowtide.ir.module import Module
from lowtide.ir.names import sanitize
from lowtide.ir.opcode import ASYNC, FORMER_OPCODES, Opcode
from lowtide.ops.definition import arity_text
from lowtide.ops.table import TABLE
from lowtide.suggestions import nearest

_OPCODES: Final = (
    {opcode.value: opcode for opcode in Opcode}
    | dict.fromkeys(COMPARISON_OPCODES, Opcode.COMPARE)
    | FORMER_OPCODES
)
_LOCAL: Final = 2**32 - 1
"""The bits of an instruction id that count within a computation; the rest name the computation."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@final
class ComputationReader:
    """Reads one computation and answers for the ids of its instructions."""

    def __init__(
        self, proto: Any, module: Module, shapes: ShapeReader, shardings: ShardingReader
    ) -> None:
        self._proto = proto
        self._shapes = shapes
        self._shardings = shardings
        self._by_id: dict[int, Instruction] = {}
        self.computation: Computation = module.new_computation(_legal(proto.name))

    def read(self, callees: Mapping[int, ComputationReader], names: set[str]) -> None:
        """Read the instructions, which may call `callees`; `names` are those taken so far."""
        proto = self._proto
        computation = self.computation
        computation.execution_thread = proto.execution_thread or ir.MAIN_THREAD
        if not proto.instructions:
            raise FieldError("a computation has at least one instruction", "instructions")
        for i, message in enumerate(proto.instructions):
            try:
                self._read_instruction(message, callees, names)
            except FieldError as error:
                raise error.under(f"instructions[{i}]") from None
        self._check_parameters()
        computation.root = self.find(proto.root_id, "root_id")
        numbers = list(self._by_id)
        if any(a > b for a, b in pairwise(numbers)):
            numbers.sort()
            computation.reorder([self._by_id[number] for number in numbers])
        computation.renumber(proto.id, numbers)

    def find(self, number: int, path: str) -> Instruction:
        """Return the instruction with an id; raises FieldError where none has it so far."""
        instruction = self._by_id.get(number & _LOCAL)
        if instruction is None:
            raise FieldError(f"no instruction with id {number & _LOCAL} before this", path)
        return instruction

    def _read_instruction(
        self, proto: Any, callees: Mapping[int, ComputationReader], names: set[str]
    ) -> None:
        name = self._name(proto, names)
        opcode = _OPCODES.get(proto.opcode)
        if opcode is None:
            raise FieldError(
                f"unknown opcode {proto.opcode[:60]!r}{nearest(proto.opcode, _OPCODES)}", "opcode"
            )
        number = proto.id & _LOCAL
        if number in self._by_id:
            raise FieldError(f"{self._by_id[number].name} has the same id {number}", "id")
        shape = self._shapes.read_field(proto, "shape")
        find = self.find
        operands = tuple([find(x, f"operand_ids[{i}]") for i, x in enumerate(proto.operand_ids)])
        called = _called(proto, opcode, callees)
        _check_counts(opcode, len(operands), len(called))
        if opcode in (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
            called = _wrapped(opcode, operands[0])
        source = Source(proto, opcode, shape, operands, called, self._shapes, self._shardings)
        attributes = read_attributes(source)
        instruction = self.computation.append(name, opcode, shape, operands, attributes, called)
        self._read_notes(proto, instruction)
        self._by_id[number] = instruction

    def _name(self, proto: Any, names: set[str]) -> str:
        if not proto.name:
            raise FieldError("the name is empty", "name")
        name = _legal(proto.name)
        if proto.name in names:
            raise FieldError(f"another instruction is named {proto.name[:60]!r}", "name")
        names.add(proto.name)
        if name != proto.name:
            stem, count = name, 0
            while name in self.computation.instructions:
                count += 1
                name = f"{stem}.{count}"
        elif name in self.computation.instructions:
            raise FieldError(f"another instruction is named {name[:60]!r}", "name")
        return name

    def _read_notes(self, proto: Any, instruction: Instruction) -> None:
        for i, number in enumerate(proto.control_predecessor_ids):
            instruction.add_control_predecessor(self.find(number, f"control_predecessor_ids[{i}]"))
        if proto.HasField("metadata"):
            try:
                metadata = read_metadata(proto.metadata, self._shardings.payloads)
            except FieldError as error:
                raise error.under("metadata") from None
            if metadata is not NO_METADATA:
                instruction.set_metadata(metadata)
        annotations = read_annotations(proto, self._shardings)
        if annotations is not NO_ANNOTATIONS:
            instruction.set_annotations(annotations)

    def _check_parameters(self) -> None:
        for wanted, parameter in enumerate(self.computation.parameters):
            found = parameter.attributes_as(ir.Parameter).number
            if found != wanted:
                raise FieldError(
                    f"expected the parameters 0, 1, ..., each once, found {found} as number "
                    f"{wanted}",
                    "instructions",
                )


def _check_counts(opcode: Opcode, operands: int, called: int) -> None:
    """Raise FieldError where an opcode takes another number of operands or computations."""
    definition = TABLE[opcode]
    if not definition.operand_count_fits(operands):
        raise FieldError(
            f"{opcode.value} takes {arity_text(definition.arity)} operands, found {operands}",
            "operand_ids",
        )
    inherits = opcode in ASYNC and opcode is not Opcode.ASYNC_START
    if not inherits and not definition.call_count_fits(called):
        arity = definition.calls_arity or (len(definition.calls), len(definition.calls))
        raise FieldError(
            f"{opcode.value} calls {arity_text(arity)} computations, found {called}",
            "called_computation_ids",
        )


def _wrapped(opcode: Opcode, operand: Instruction) -> tuple[Computation, ...]:
    """Return the wrapped computation, which an update or done takes from its start."""
    if operand.opcode not in ASYNC or operand.opcode is Opcode.ASYNC_DONE:
        raise FieldError(
            f"{opcode.value} reads an async-start or async-update, not {operand.name}",
            "operand_ids[0]",
        )
    return operand.called_computations


def _called(
    proto: Any, opcode: Opcode, callees: Mapping[int, ComputationReader]
) -> tuple[Computation, ...]:
    """Return the called computations in the order of the IR."""
    if not proto.called_computation_ids:
        return ()
    called = []
    for i, number in enumerate(proto.called_computation_ids):
        reader = callees.get(number)
        if reader is None:
            raise FieldError(
                f"no computation with id {number} before this one", f"called_computation_ids[{i}]"
            )
        called.append(reader.computation)
    return in_other_order(opcode, tuple(called))


def in_other_order(opcode: Opcode, called: tuple[Computation, ...]) -> tuple[Computation, ...]:
    """Return called computations in the order of the other form: protobuf has body, condition."""
    return called[::-1] if opcode is Opcode.WHILE else called


def _legal(name: str) -> str:
    return name if _NAME.fullmatch(name) else sanitize(name)
